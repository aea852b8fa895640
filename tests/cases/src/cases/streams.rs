//! Workspace, streams, capture, handles, threads.

use std::{
    collections::BTreeSet,
    sync::{Barrier, mpsc},
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use miopen_api::fwd_algorithm;

use crate::{
    case::{Case, Context, Needs::Nothing},
    edge::{Capture, Direction, Libraries, Status, Stream, Workspace},
    memory::Scratch,
    problem::{Kind::Float, Problem},
    session::Session,
    trial::{Flow, Run, Trial},
};

/// The cases of this file.
pub const CASES: &[Case] = &[
    Case { number: "V30", name: "find-with-no-or-too-little-workspace", needs: Nothing, run: little_workspace },
    Case { number: "V32", name: "a-stream-switch-while-the-first-stands-still", needs: Nothing, run: stream_switch },
    Case { number: "V32", name: "the-null-stream-and-another-device", needs: Nothing, run: other_streams },
    Case { number: "V33", name: "a-captured-warm-call-replays", needs: Nothing, run: warm_capture },
    Case { number: "V33", name: "a-cold-call-does-not-end-a-capture", needs: Nothing, run: cold_capture },
    Case { number: "V33", name: "a-plan-is-built-beside-a-capture", needs: Nothing, run: build_beside_capture },
    Case { number: "V34", name: "many-threads-with-their-own-handles", needs: Nothing, run: many_threads },
    Case { number: "V35", name: "threads-meet-at-a-cold-problem", needs: Nothing, run: cold_threads },
    Case { number: "V36", name: "one-handle-two-threads-two-streams", needs: Nothing, run: shared_handle },
    Case { number: "V37", name: "a-handles-address-comes-back", needs: Nothing, run: reused_address },
    Case { number: "V39", name: "every-algorithm-rewrites-the-output", needs: Nothing, run: every_algorithm },
];

/// Whatever the caller has, nothing beyond it is written, and the answer is right or a refusal.
fn little_workspace(cx: &mut Context) -> Result<()> {
    let session = cx.session()?;
    for direction in Direction::ALL {
        let trial = Trial::of(Problem::new(Float, &[1, 16, 16, 16], &[16, 16, 3, 3]).pads(&[1])).direction(direction);
        let run = Run::new(&trial, &session)?;
        let (status, size) = run.call().workspace_size();
        cx.status(&format!("{}_query", direction.name()), status)?;
        // One byte short of nothing is nothing; then a pointer without a size.
        let scratch = Scratch::new(&session.libraries.hip, size.max(4096))?;
        let short = size.saturating_sub(1);
        let given = [("none", Workspace::default(), 0), ("short", scratch.told(short), short), ("pointer_only", scratch.told(0), 0)];
        for (name, workspace, told) in given {
            let label = format!("{}_{name}", direction.name());
            let status = with_workspace(cx, &session, &run, &label, workspace)?;
            cx.status(&label, status)?;
            scratch.check(told).context(label.clone())?;
            if status.is_success() {
                judge(cx, &run, &label)?;
            }
        }
    }
    Ok(())
}

fn with_workspace(cx: &mut Context, session: &Session, run: &Run<'_>, label: &str, workspace: Workspace<'_>) -> Result<Status> {
    let (status, found) = run.call().find(4, workspace);
    cx.status(&format!("{label}_find"), status)?;
    session.libraries.hip.synchronize()?;
    let Some(best) = found.first().filter(|_| status.is_success()) else { return Ok(status) };
    ensure!(best.memory <= workspace.size, "{label}: Find answers what needs {} bytes of {}", best.memory, workspace.size);
    run.prepare()?;
    let status = run.execute(best.algorithm, workspace);
    session.libraries.hip.synchronize()?;
    Ok(status)
}

fn judge(cx: &mut Context, run: &Run<'_>, label: &str) -> Result<()> {
    let compared = run.compare();
    cx.correct(label, compared.is_ok());
    compared.with_context(|| label.to_string())
}

fn volume() -> Problem {
    Problem::new(Float, &[1, 4, 6, 8, 8], &[4, 4, 3, 3, 3]).pads(&[1])
}

/// How long a call may not return before it counts as waiting for the device. Only what is broken takes as long.
const STUCK: Duration = Duration::from_secs(30);

/// Two launches, the first stream standing still: both return before it goes on, and both are right.
fn stream_switch(cx: &mut Context) -> Result<()> {
    let hip = &cx.libraries.hip;
    let (a, b) = (hip.stream()?, hip.stream()?);
    let session = Session::on(cx.libraries, &a)?;
    let (first, second) = (Trial::of(volume()), Trial::of(volume()).seed(2));
    let (on_a, on_b) = (Run::new(&first, &session)?, Run::new(&second, &session)?);
    let scratch = warm_up(cx, &session, &on_a, [&a, &b])?;
    // The caller keeps its own workspaces apart; what the library has of its own is the library's to keep apart.
    let other = Scratch::new(hip, scratch.memory.workspace().size)?;
    on_a.prepare()?;
    on_b.prepare()?;
    ensure!(session.miopen().set_stream(&session.handle, Some(&a)).is_success(), "miopenSetStream");
    hip.synchronize()?;
    let gate = a.gate()?;
    let (returned, wait) = mpsc::channel();
    let opener = thread::spawn(move || {
        let in_time = wait.recv_timeout(STUCK).is_ok();
        thread::sleep(Duration::from_millis(100));
        drop(gate);
        in_time
    });
    let statuses = [
        on_a.execute(scratch.algorithm, scratch.memory.workspace()),
        session.miopen().set_stream(&session.handle, Some(&b)),
        on_b.execute(scratch.algorithm, other.workspace()),
    ];
    // The opener waits for this or for its patience to end; it cannot be gone.
    let _ = returned.send(());
    let in_time = opener.join().is_ok_and(|in_time| in_time);
    hip.synchronize()?;
    for (label, status) in ["on_a", "switch", "on_b"].into_iter().zip(statuses) {
        cx.status(label, status)?;
        status.check(label)?;
    }
    ensure!(in_time, "a launch waited for the device");
    judge(cx, &on_a, "first")?;
    judge(cx, &on_b, "second")
}

/// What the warm-up found.
struct Warm {
    algorithm: i32,
    memory: Scratch,
}

/// Find and one execution on each stream, all waited for; the handle stays on the last.
fn warm_up(cx: &mut Context, session: &Session, run: &Run<'_>, streams: [&Stream; 2]) -> Result<Warm> {
    let (status, size) = run.call().workspace_size();
    cx.status("workspace", status)?;
    let memory = Scratch::new(&session.libraries.hip, size)?;
    let mut algorithm = fwd_algorithm::DIRECT;
    for stream in streams {
        session.miopen().set_stream(&session.handle, Some(stream)).check("miopenSetStream")?;
        let (status, found) = run.call().find(1, memory.workspace());
        cx.status("find", status)?;
        algorithm = found.first().context("Find found nothing")?.algorithm;
        let status = run.execute(algorithm, memory.workspace());
        cx.status("warm", status)?;
        status.check("the warm-up")?;
        stream.synchronize()?;
    }
    session.libraries.hip.synchronize()?;
    Ok(Warm { algorithm, memory })
}

/// Back to the null stream; to a stream of another device, if there is one.
fn other_streams(cx: &mut Context) -> Result<()> {
    let hip = &cx.libraries.hip;
    let stream = hip.stream()?;
    let session = Session::on(cx.libraries, &stream)?;
    Trial::of(volume()).right(cx, &session, "on_a_stream")?;
    let (status, address) = session.miopen().stream_of(&session.handle);
    cx.status("get_stream", status)?;
    ensure!(stream.is(address), "the handle is on another stream than it was made with");
    cx.status("set_null", session.miopen().set_stream(&session.handle, None))?;
    Trial::of(volume()).seed(2).right(cx, &session, "on_null")?;
    if hip.devices()? < 2 {
        cx.note("one device: no stream of another");
        return Ok(());
    }
    hip.set_device(1)?;
    let elsewhere = hip.stream();
    hip.set_device(0)?;
    let elsewhere = elsewhere?;
    cx.status("set_elsewhere", session.miopen().set_stream(&session.handle, Some(&elsewhere)))?;
    session.miopen().set_stream(&session.handle, None).check("miopenSetStream")?;
    Trial::of(volume()).seed(3).right(cx, &session, "back_on_null")?;
    Ok(())
}

fn plane() -> Problem {
    Problem::new(Float, &[2, 4, 8, 8], &[4, 4, 3, 3]).pads(&[1])
}

/// A handle on a stream, and what it captures.
struct Captured<'a> {
    session: &'a Session,
    stream: &'a Stream,
}

impl Captured<'_> {
    /// Captures one execution, replays it three times with new input, and judges each time.
    fn replay(&self, cx: &mut Context, label: &str, trial: &Trial, mode: Capture, warm: bool) -> Result<()> {
        let hip = &self.session.libraries.hip;
        let run = Run::new(trial, self.session)?;
        let (_, size) = run.call().workspace_size();
        let scratch = Scratch::new(hip, size)?;
        let mut algorithm = fwd_algorithm::DIRECT;
        if warm {
            let (status, found) = run.call().find(1, scratch.workspace());
            cx.status(&format!("{label}_find"), status)?;
            algorithm = found.first().context("Find found nothing")?.algorithm;
            cx.status(&format!("{label}_warm"), run.execute(algorithm, scratch.workspace()))?;
        }
        hip.synchronize()?;
        self.stream.begin_capture(mode)?;
        let status = run.execute(algorithm, scratch.workspace());
        let graph = self.stream.end_capture().with_context(|| format!("{label}: the capture was disturbed"))?;
        cx.status(&format!("{label}_captured"), status)?;
        status.check("the captured call")?;
        for round in 1..=3 {
            let again = trial.clone().seed(trial.seed + round);
            let values = again.values();
            (0..2).try_for_each(|i| run.buffers[i].fill(&values[i]))?;
            run.prepare()?;
            hip.synchronize()?;
            graph.launch(self.stream)?;
            self.stream.synchronize()?;
            let compared = crate::definition::compare(Float, &again.expected(), &run.result().values()?);
            cx.correct(&format!("{label}_{round}"), compared.is_ok());
            compared.with_context(|| format!("{label}, replay {round}"))?;
        }
        Ok(())
    }
}

/// On the way of a warm call nothing is allocated, freed, asked or waited for.
fn warm_capture(cx: &mut Context) -> Result<()> {
    let stream = cx.libraries.hip.stream()?;
    let session = Session::on(cx.libraries, &stream)?;
    let captured = Captured { session: &session, stream: &stream };
    for (label, mode) in [("global", Capture::Global), ("thread_local", Capture::ThreadLocal)] {
        captured.replay(cx, label, &Trial::of(plane()), mode, true)?;
    }
    Ok(())
}

/// The first call of a problem inside a capture, and one that needs more workspace than any before: native's, and the capture goes on.
fn cold_capture(cx: &mut Context) -> Result<()> {
    let stream = cx.libraries.hip.stream()?;
    let session = Session::on(cx.libraries, &stream)?;
    let captured = Captured { session: &session, stream: &stream };
    let mark = cx.mark();
    captured.replay(cx, "first_call", &Trial::of(plane()), Capture::ThreadLocal, false)?;
    cx.declined(mark, "host.capture.cold")?;
    captured.replay(cx, "warm", &Trial::of(plane()), Capture::ThreadLocal, true)?;
    let larger = Trial::of(Problem::new(Float, &[4, 16, 16, 16], &[16, 16, 3, 3]).pads(&[1]));
    captured.replay(cx, "larger", &larger, Capture::ThreadLocal, false)
}

/// Another thread's new problem, on a stream of its own, does not touch a capture of this thread.
fn build_beside_capture(cx: &mut Context) -> Result<()> {
    let libraries = cx.libraries;
    let hip = &libraries.hip;
    let (a, b) = (hip.stream()?, hip.stream()?);
    let (captured, other) = (Session::on(libraries, &a)?, Session::on(libraries, &b)?);
    let warm = Trial::of(plane());
    let run = Run::new(&warm, &captured)?;
    cx.status("warm", run.execute(fwd_algorithm::DIRECT, Workspace::default()))?;
    let cold = Trial::of(Problem::new(Float, &[3, 5, 9, 7], &[6, 5, 3, 3]).pads(&[1])).seed(2);
    let beside = Run::new(&cold, &other)?;
    run.prepare()?;
    hip.synchronize()?;
    a.begin_capture(Capture::ThreadLocal)?;
    let built = thread::scope(|scope| {
        let built = scope.spawn(|| beside.execute(fwd_algorithm::DIRECT, Workspace::default()));
        built.join().ok()
    });
    let status = run.execute(fwd_algorithm::DIRECT, Workspace::default());
    let graph = a.end_capture().context("the capture was disturbed")?;
    cx.status("captured", status)?;
    let built = built.context("the other thread panicked")?;
    cx.status("beside", built)?;
    graph.launch(&a)?;
    hip.synchronize()?;
    judge(cx, &run, "captured")?;
    judge(cx, &beside, "beside")
}

/// Runs a trial again and again on a handle and stream of this thread's own. No properties: threads have no context.
fn rounds(libraries: &'static Libraries, trial: &Trial, rounds: usize, barrier: &Barrier) -> Result<()> {
    let prepared = Prepared::new(libraries, trial);
    // Everyone arrives, also those that failed: the others wait for all.
    barrier.wait();
    let prepared = prepared?;
    prepared.rounds(trial, rounds)
}

/// A stream and a handle on it.
struct Prepared {
    session: Session,
    stream: Stream,
}

impl Prepared {
    fn new(libraries: &'static Libraries, _trial: &Trial) -> Result<Self> {
        let stream = libraries.hip.stream()?;
        Ok(Self { session: Session::on(libraries, &stream)?, stream })
    }

    fn rounds(&self, trial: &Trial, rounds: usize) -> Result<()> {
        let run = Run::new(trial, &self.session)?;
        let (status, size) = run.call().workspace_size();
        status.check("the workspace query")?;
        let scratch = Scratch::new(&self.session.libraries.hip, size)?;
        let (status, found) = run.call().find(1, scratch.workspace());
        status.check("Find")?;
        let algorithm = found.first().context("Find found nothing")?.algorithm;
        for round in 0..rounds {
            run.prepare()?;
            self.session.libraries.hip.synchronize()?;
            run.execute(algorithm, scratch.workspace()).check("execution")?;
            self.stream.synchronize()?;
            run.compare().with_context(|| format!("round {round}"))?;
        }
        Ok(())
    }
}

/// Threads, each with a trial of its own; their errors.
fn in_threads(libraries: &'static Libraries, trials: &[Trial], count: usize) -> Result<()> {
    let barrier = Barrier::new(trials.len());
    let results: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = trials.iter().map(|trial| scope.spawn(|| rounds(libraries, trial, count, &barrier))).collect();
        threads.into_iter().map(|thread| thread.join()).collect()
    });
    for (number, result) in results.into_iter().enumerate() {
        let result = result.map_err(|_| anyhow::anyhow!("thread {number} panicked"))?;
        result.with_context(|| format!("thread {number}"))?;
    }
    Ok(())
}

/// The same problem with each thread's own data: every result right, every time.
fn many_threads(cx: &mut Context) -> Result<()> {
    let problem = Problem::new(Float, &[2, 16, 16, 16], &[16, 16, 3, 3]).pads(&[1]);
    let trials: Vec<_> = (1..=8).map(|seed| Trial::of(problem.clone()).seed(seed)).collect();
    // Without a device each round costs processor time that threads share.
    in_threads(cx.libraries, &trials, if cx.gpu { 200 } else { 20 })
}

/// One new problem for all, then a new problem for each, then one whose first build fails. That builds of different problems do not wait
/// for each other would need a backend that builds slowly, which the reference hipDNN is not: that is not looked at here.
fn cold_threads(cx: &mut Context) -> Result<()> {
    let problem = |channels: usize| Problem::new(Float, &[1, channels, 7, 5], &[3, channels, 3, 3]).pads(&[1]);
    let same: Vec<_> = (1..=16).map(|seed| Trial::of(problem(3)).seed(seed)).collect();
    in_threads(cx.libraries, &same, 1)?;
    let different: Vec<_> = (1..=16).map(|seed| Trial::of(problem(3 + seed)).seed(seed as u64)).collect();
    in_threads(cx.libraries, &different, 1)?;
    let session = cx.session()?;
    let trial = Trial::of(problem(31)).flow(Flow::Unfound);
    let run = Run::new(&trial, &session)?;
    let (backend, mark) = (cx.backend(), cx.mark());
    let fault = "hipdnnBackendFinalize@EXECUTION_PLAN:1!=INTERNAL_ERROR";
    let faults = backend.as_ref().map(|backend| backend.faults(fault)).transpose()?;
    let status = run.execute(fwd_algorithm::DIRECT, Workspace::default());
    drop(faults);
    let failed = cx.events(mark)?.iter().any(|event| event.route == "failed");
    ensure!(!failed || !status.is_success(), "the build failed, and the call succeeded");
    trial.seed(2).right(cx, &session, "after_a_failed_build")?;
    Ok(())
}

/// A caller's error by the contract. Nothing of ours may make it worse: no crash, no standstill, every launch on one of the two streams.
fn shared_handle(cx: &mut Context) -> Result<()> {
    let hip = &cx.libraries.hip;
    let streams = [hip.stream()?, hip.stream()?];
    let session = cx.session()?;
    let trials = [1, 2].map(|seed| Trial::of(Problem::new(Float, &[1, 2, 5, 5], &[2, 2, 3, 3]).pads(&[1])).seed(seed));
    let runs = [Run::new(&trials[0], &session)?, Run::new(&trials[1], &session)?];
    let mut algorithms = Vec::new();
    for run in &runs {
        let (status, found) = run.call().find(1, Workspace::default());
        cx.status("find", status)?;
        algorithms.push(found.first().context("Find found nothing")?.algorithm);
        run.prepare()?;
    }
    hip.synchronize()?;
    let launch = |i: usize| -> Result<()> {
        for _ in 0..1000 {
            session.miopen().set_stream(&session.handle, Some(&streams[i])).check("miopenSetStream")?;
            runs[i].execute(algorithms[i], Workspace::default()).check("execution")?;
        }
        Ok(())
    };
    let results: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..2).map(|i| scope.spawn(move || launch(i))).collect();
        threads.into_iter().map(|thread| thread.join()).collect()
    });
    for result in results {
        result.map_err(|_| anyhow::anyhow!("a thread panicked"))??;
    }
    session.miopen().set_stream(&session.handle, None).check("miopenSetStream")?;
    hip.synchronize()?;
    judge(cx, &runs[0], "first")?;
    judge(cx, &runs[1], "second")
}

/// A new handle at an old one's address has nothing of it: it is on its own stream and right. Destroying twice is not tried: it is
/// undefined by the contract of the real library, which reads what it freed.
fn reused_address(cx: &mut Context) -> Result<()> {
    let libraries = cx.libraries;
    cx.status("destroy_null", libraries.miopen.destroy_no_handle())?;
    drop(Session::new(libraries)?);
    let (mut seen, mut repeated) = (BTreeSet::new(), 0);
    for round in 1..=32 {
        let stream = libraries.hip.stream()?;
        let session = if round % 2 == 0 { Session::new(libraries)? } else { Session::on(libraries, &stream)? };
        repeated += usize::from(!seen.insert(session.handle.address()));
        Trial::of(plane()).seed(round).right(cx, &session, "round")?;
        session.miopen().set_stream(&session.handle, Some(&stream)).check("miopenSetStream")?;
        Trial::of(plane()).seed(round + 100).right(cx, &session, "round_switched")?;
        let (status, address) = session.miopen().stream_of(&session.handle);
        status.check("miopenGetStream")?;
        ensure!(stream.is(address), "round {round}: the handle is on another stream");
    }
    cx.note(format!("{repeated} of 32 handles were at an address that another had"));
    Ok(())
}

/// Find leaves results in the output. Poisoned after it, the output must be written anew by every algorithm that was found.
fn every_algorithm(cx: &mut Context) -> Result<()> {
    let session = cx.session()?;
    for direction in Direction::ALL {
        let trial = Trial::of(Problem::new(Float, &[2, 8, 10, 10], &[8, 8, 3, 3])).direction(direction);
        let run = Run::new(&trial, &session)?;
        let (status, size) = run.call().workspace_size();
        cx.status(&format!("{}_workspace", direction.name()), status)?;
        let scratch = Scratch::new(&session.libraries.hip, size)?;
        let (status, found) = run.call().find(16, scratch.workspace());
        cx.status(&format!("{}_find", direction.name()), status)?;
        session.libraries.hip.synchronize()?;
        ensure!(!found.is_empty(), "Find found nothing");
        for (i, perf) in found.iter().enumerate() {
            run.prepare()?;
            session.libraries.hip.synchronize()?;
            let status = run.execute(perf.algorithm, scratch.told(perf.memory));
            session.libraries.hip.synchronize()?;
            let label = format!("{} algorithm {} ({} of {})", direction.name(), perf.algorithm, i + 1, found.len());
            status.check(&label)?;
            scratch.check(perf.memory).context(label.clone())?;
            run.compare().context(label)?;
        }
        // How many there are, and in which order, is not the same with hipDNN before native.
        cx.correct(direction.name(), true);
    }
    Ok(())
}
