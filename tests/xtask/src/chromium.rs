//! A headless Chromium, driven over its DevTools pipe: pages opened, watched, asked, pictured. Knows nothing about what they show.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};
use thiserror::Error;

/// There is no browser on this machine: nothing that is wrong here.
#[derive(Debug, Error)]
#[error("no chromium in PATH: install Debian's package chromium")]
pub struct Missing;

/// Seconds until a browser that hangs is ended.
const WATCHDOG: &str = "300";

/// A running browser.
pub struct Chromium {
    process: Child,
    commands: ChildStdin,
    messages: BufReader<ChildStdout>,
    session: Option<String>,
    next: u64,
    events: Vec<Value>,
}

impl Chromium {
    /// Where it is installed.
    pub fn find() -> Result<PathBuf, Missing> {
        let folders = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&folders).map(|folder| folder.join("chromium")).find(|path| path.is_file()).ok_or(Missing)
    }

    /// Starts one with a profile of its own, and opens an empty page.
    pub fn start(program: &Path, profile: &Path) -> Result<Self> {
        // The browser talks on descriptors 3 and 4; the shell puts our pipes there.
        let script = format!("exec timeout {WATCHDOG} \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1");
        let mut command = Command::new("sh");
        command.args(["-c", &script]).arg(program);
        command.args(["--headless", "--remote-debugging-pipe", "--disable-gpu", "--no-first-run", "--hide-scrollbars"]);
        command.arg(format!("--user-data-dir={}", profile.display()));
        if std::fs::metadata("/proc/self")?.uid() == 0 {
            // It refuses to run as root otherwise; it only opens pages of this project.
            command.arg("--no-sandbox");
        }
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("starting chromium")?;
        let commands = process.stdin.take().context("no pipe to chromium")?;
        let messages = BufReader::new(process.stdout.take().context("no pipe from chromium")?);
        let mut browser = Self { process, commands, messages, session: None, next: 0, events: Vec::new() };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }))?["targetId"].clone();
        let attached = browser.call("Target.attachToTarget", json!({ "targetId": target, "flatten": true }))?;
        browser.session = attached["sessionId"].as_str().map(String::from);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), json!({}))?;
        }
        Ok(browser)
    }

    /// Calls a method of the protocol.
    pub fn call(&mut self, method: &str, parameters: Value) -> Result<Value> {
        self.next += 1;
        let mut message = json!({ "id": self.next, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            message["sessionId"] = session.as_str().into();
        }
        write!(self.commands, "{message}\0").with_context(|| format!("{method}: chromium is gone"))?;
        self.commands.flush()?;
        loop {
            let answer = self.message().with_context(|| method.to_string())?;
            if answer["id"] == self.next {
                ensure!(answer["error"].is_null(), "{method}: {}", answer["error"]["message"]);
                return Ok(answer["result"].clone());
            }
            self.events.push(answer);
        }
    }

    fn message(&mut self) -> Result<Value> {
        let mut text = Vec::new();
        self.messages.read_until(0, &mut text)?;
        ensure!(text.pop() == Some(0), "chromium ended");
        Ok(serde_json::from_slice(&text)?)
    }

    /// Opens a page and waits until it is loaded; answers everything that happened meanwhile.
    pub fn open(&mut self, url: &str) -> Result<Vec<Value>> {
        self.events.clear();
        let opened = self.call("Page.navigate", json!({ "url": url }))?;
        ensure!(opened["errorText"].is_null(), "{url}: {}", opened["errorText"]);
        while !self.events.iter().any(|event| event["method"] == "Page.loadEventFired") {
            let event = self.message()?;
            self.events.push(event);
        }
        // Whatever the page does right after that has happened when it answers.
        self.evaluate("new Promise(done => requestAnimationFrame(() => setTimeout(done, 50)))")?;
        Ok(std::mem::take(&mut self.events))
    }

    /// What an expression is in the page.
    pub fn evaluate(&mut self, expression: &str) -> Result<Value> {
        let parameters = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let answer = self.call("Runtime.evaluate", parameters)?;
        if !answer["exceptionDetails"].is_null() {
            bail!("{expression}: {}", answer["exceptionDetails"]);
        }
        Ok(answer["result"]["value"].clone())
    }

    /// Presses a key.
    pub fn press(&mut self, key: &str, code: u32, text: &str) -> Result<()> {
        for kind in ["keyDown", "keyUp"] {
            let text = if kind == "keyDown" { text } else { "" };
            let parameters = json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text });
            self.call("Input.dispatchKeyEvent", parameters)?;
        }
        Ok(())
    }

    /// Shows pages in a width and a colour scheme.
    pub fn show_as(&mut self, width: u32, scheme: &str) -> Result<()> {
        let metrics = json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.call("Emulation.setDeviceMetricsOverride", metrics)?;
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.call("Emulation.setEmulatedMedia", json!({ "features": features })).map(drop)
    }

    /// Pictures the whole page.
    pub fn picture(&mut self, file: &Path) -> Result<()> {
        let size = self.call("Page.getLayoutMetrics", json!({}))?["cssContentSize"].clone();
        let clip = json!({ "x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1 });
        let picture = self.call("Page.captureScreenshot", json!({ "format": "png", "captureBeyondViewport": true, "clip": clip }))?;
        std::fs::write(file, base64(picture["data"].as_str().unwrap_or_default())?).with_context(|| file.display().to_string())
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        // It is of no more use; if it is gone already, so much the better.
        let _ = self.call("Browser.close", json!({}));
        let _ = self.process.wait();
    }
}

/// The bytes of a text in base64.
fn base64(text: &str) -> Result<Vec<u8>> {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bytes, mut bits, mut count) = (Vec::new(), 0u32, 0);
    for character in text.bytes().filter(|&character| character != b'=') {
        let digit = DIGITS.iter().position(|&digit| digit == character).context("not base64")?;
        (bits, count) = (bits << 6 | digit as u32, count + 6);
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    #[test]
    fn base64_is_read() {
        assert_eq!(super::base64("aGlwRE5OIQ==").unwrap(), b"hipDNN!");
        assert!(super::base64("a-b").is_err());
    }
}
