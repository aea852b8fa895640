//! How values look, wherever they are shown.

use std::fmt::Write as _;

/// Text without characters that control whoever shows it: they are written out.
pub fn visible(text: &str) -> String {
    let mut visible = String::with_capacity(text.len());
    for character in text.chars() {
        let directs = matches!(character, '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}' | '\u{fff0}'..='\u{ffff}');
        if character.is_control() || directs {
            // A string takes every write.
            let _ = write!(visible, "\\u{{{:x}}}", u32::from(character));
        } else {
            visible.push(character);
        }
    }
    visible
}

/// A count with its thousands apart.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut shown = String::new();
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n).is_multiple_of(3) {
            shown.push('\u{202f}');
        }
        shown.push(digit);
    }
    shown
}

/// A duration with three digits.
pub fn time(ns: u64) -> String {
    let ns = ns as f64;
    match ns {
        0.0 => "0".into(),
        ns if ns < 1e3 => format!("{ns:.0} ns"),
        ns if ns < 999.5e3 => digits(ns / 1e3, "µs"),
        ns if ns < 999.5e6 => digits(ns / 1e6, "ms"),
        ns if ns < 600e9 => digits(ns / 1e9, "s"),
        ns if ns < 36_000e9 => digits(ns / 60e9, "min"),
        ns => digits(ns / 3600e9, "h"),
    }
}

/// Multiplications.
pub fn work(multiplications: u64) -> String {
    match multiplications as f64 {
        0.0 => "–".into(),
        n if n < 999.5e3 => digits(n / 1e3, "kMAC"),
        n if n < 999.5e6 => digits(n / 1e6, "MMAC"),
        n if n < 999.5e9 => digits(n / 1e9, "GMAC"),
        n => digits(n / 1e12, "TMAC"),
    }
}

fn digits(value: f64, unit: &str) -> String {
    let places = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
    format!("{value:.places$} {unit}")
}

/// A share of one. Only what is all is 100 %, only what is nothing is 0 %.
pub fn share(share: f64) -> String {
    let percent = share * 100.0;
    match percent {
        0.0 => "0 %".into(),
        100.0 => "100 %".into(),
        small if small < 0.1 => "<0.1 %".into(),
        large if large > 99.9 => ">99.9 %".into(),
        _ => format!("{percent:.1} %"),
    }
}

/// A part of a whole; nothing of nothing is nothing.
pub fn part(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Where a bucket of a histogram begins.
pub fn bucket_start(bucket: usize) -> String {
    if bucket == 0 { "0".into() } else { time(1000u64 << (bucket - 1)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_directs_who_shows_it() {
        assert_eq!(visible("a\u{1b}[2J\u{202e}b\n\u{0}é"), "a\\u{1b}[2J\\u{202e}b\\u{a}\\u{0}é");
    }

    #[test]
    fn values_have_few_digits() {
        assert_eq!(
            [0, 999, 1000, 1_234_000, 999_600, 3_900_000_000, 7_200_000_000_000_000].map(time)[..],
            ["0", "999 ns", "1.00 µs", "1.23 ms", "1.00 ms", "3.90 s", "2000 h"]
        );
        assert_eq!([0, 1, 1_000_000, 4_087_136_256].map(work)[..], ["–", "0.00 kMAC", "1.00 MMAC", "4.09 GMAC"]);
        assert_eq!([1, 1000, 1_234_567].map(count)[..], ["1", "1\u{202f}000", "1\u{202f}234\u{202f}567"]);
        assert_eq!([0.0, 0.00001, 0.5, 0.99999, 1.0].map(share)[..], ["0 %", "<0.1 %", "50.0 %", ">99.9 %", "100 %"]);
        assert_eq!([0, 1, 11].map(bucket_start)[..], ["0", "1.00 µs", "1.02 ms"]);
    }
}
