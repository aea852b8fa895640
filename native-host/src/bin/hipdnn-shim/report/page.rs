//! The report as one page of HTML: no script but the one that sorts, nothing from elsewhere (and a policy in the page that forbids both).
//! Text of others goes through [`Html::text`], and nothing else makes it part of the page.

use hipdnn_host::{
    cache::disk::DiskCounts,
    census::Counters,
    identity::hexadecimal,
    phases::{BUCKETS, Histogram, Phase},
};
use sha2::{Digest as _, Sha256};

use super::{
    merged::{Fix, Member, Problem, Report, by_policy, coverage, declined, time_ns},
    shown,
};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
/// The most problems in the table of all; the JSON form has the rest.
const PROBLEMS_SHOWN: usize = 40;
/// The most problems under one rule.
const BEHIND_A_RULE: usize = 12;

/// A piece of a page, with nothing in it that is not meant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Html(String);

impl Html {
    /// Markup of this file's own.
    fn raw(markup: &'static str) -> Self {
        Self(markup.into())
    }

    /// Text of anybody's.
    fn text(text: &str) -> Self {
        let mut html = String::with_capacity(text.len());
        for character in shown::visible(text).chars() {
            match character {
                '&' => html.push_str("&amp;"),
                '<' => html.push_str("&lt;"),
                '>' => html.push_str("&gt;"),
                '"' => html.push_str("&quot;"),
                '\'' => html.push_str("&#39;"),
                other => html.push(other),
            }
        }
        Self(html)
    }

    fn join(parts: impl IntoIterator<Item = Self>) -> Self {
        Self(parts.into_iter().map(|part| part.0).collect())
    }
}

/// Fills `{}` of a piece of markup with pieces. (`format!` would take text for markup.)
macro_rules! html {
    ($markup:expr $(, $part:expr)* $(,)?) => {{
        let parts: &[Html] = &[$($part),*];
        Html(format_parts($markup, parts))
    }};
}

fn format_parts(markup: &'static str, parts: &[Html]) -> String {
    let mut pieces = markup.split("{}");
    let mut text = pieces.next().unwrap_or_default().to_string();
    for (piece, part) in pieces.zip(parts) {
        text.push_str(&part.0);
        text.push_str(piece);
    }
    text
}

fn number(value: impl std::fmt::Display) -> Html {
    Html(value.to_string())
}

fn counted(value: u64) -> Html {
    Html(shown::count(value))
}

fn code(text: &str) -> Html {
    html!("<code>{}</code>", Html::text(text))
}

/// The name of a function, which may be broken before its words.
fn entry_point(name: &str) -> Html {
    if !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        return code(name);
    }
    let broken = name.chars().flat_map(|c| [if c.is_ascii_uppercase() { "<wbr>" } else { "" }.to_string(), c.to_string()]);
    html!("<code>{}</code>", Html(broken.collect()))
}

/// The page.
pub fn page(report: &Report) -> String {
    let parts = [
        summary(report),
        fixes(report),
        entry_points(report),
        phases(report),
        temperatures(report),
        caches(report),
        problems(report),
        processes(report),
        meaning(),
    ];
    let body = html!("{}<main id=\"main\">{}</main>{}", header(report), Html::join(parts), footer(report));
    // Of everything on the page: what is in it cannot know it.
    let nonce = Html(hexadecimal(&Sha256::digest(body.0.as_bytes())));
    html!(
        concat!(
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">",
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:; ",
            "script-src 'nonce-{}'; base-uri 'none'; form-action 'none'\">",
            "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><meta name=\"color-scheme\" content=\"light dark\">",
            "<link rel=\"icon\" href=\"data:,\"><title>hipDNN forwarding report</title><style>{}</style></head><body>\n",
            "<a class=\"skip\" href=\"#main\">Skip to the report</a><div class=\"wrap\">{}</div>\n<script nonce=\"{}\">{}</script></body></html>\n"
        ),
        nonce.clone(),
        Html::raw(STYLE),
        body,
        nonce,
        Html::raw(SCRIPT),
    )
    .0
}

fn header(report: &Report) -> Html {
    let mut programs: Vec<&str> = report.processes.iter().map(|member| member.process.program.as_str()).collect();
    programs.sort_unstable();
    programs.dedup();
    let processes = report.processes.len();
    let of = match programs[..] {
        [one] => html!("{} process{} of {}", number(processes), Html::raw(if processes == 1 { "" } else { "es" }), code(one)),
        _ => html!("{} processes of {} programs", number(processes), number(programs.len())),
    };
    let sections = [
        ("fixes", "What to fix first"),
        ("calls", "Entry points"),
        ("phases", "Phases"),
        ("temperatures", "Cold and warm"),
        ("caches", "Caches"),
        ("problems", "Problems"),
        ("processes", "Processes"),
        ("meaning", "What the numbers mean"),
    ];
    let link = |(id, title): (&'static str, &'static str)| html!("<li><a href=\"#{}\">{}</a></li>", Html::raw(id), Html::raw(title));
    html!(
        "<header><h1>What became of MIOpen's calls</h1><p class=\"soft\">{}</p><nav aria-label=\"Sections\"><ul>{}</ul></nav></header>",
        of,
        Html::join(sections.map(link)),
    )
}

/// What became of calls, in the order and with the words that are used everywhere.
fn endings(counters: &Counters) -> [(&'static str, &'static str, u64); 4] {
    [
        ("served", "served by hipDNN", counters.served),
        ("declined", "declined, native ran them", declined(counters)),
        ("failed", "failed in hipDNN", counters.failed),
        ("native", "native by the program's choice", by_policy(counters)),
    ]
}

fn stack(counters: &Counters) -> Html {
    let all = counters.calls();
    let part = |(class, _, count): &(&'static str, &'static str, u64)| {
        let width = Html(format!("{:.3}", 100.0 * shown::part(*count, all)));
        html!("<i class=\"{}\" style=\"width:{}%\"></i>", Html::raw(class), width)
    };
    let endings = endings(counters);
    let label = endings.map(|(_, words, count)| format!("{count} {words}")).join(", ");
    let parts = endings.iter().filter(|(_, _, count)| *count > 0).map(part);
    html!("<div class=\"stack\" role=\"img\" aria-label=\"{}\">{}</div>", Html::text(&label), Html::join(parts))
}

fn summary(report: &Report) -> Html {
    let total = &report.total;
    let legend = endings(total).map(|(class, words, count)| {
        html!(
            "<li data-ending=\"{}\" data-count=\"{}\"><i class=\"{}\"></i>{} {}</li>",
            Html::raw(class),
            number(count),
            Html::raw(class),
            counted(count),
            Html::raw(words)
        )
    });
    let figure = coverage(total).map_or_else(|| Html::raw("–"), |share| Html(shown::share(share)));
    let lost: u64 = report.fixes.iter().map(Fix::time_ns).fold(0, u64::saturating_add);
    let tiles = [
        (counted(total.calls()), "calls that may be forwarded"),
        (Html(shown::time(lost)), "host time of declined calls"),
        (Html(shown::time(total.cold_calls.total_ns)), "host time of cold calls"),
        (
            Html(shown::share(shown::part(total.plans.memory.saturating_add(total.plans.disk), total.plans.total()))),
            "of plans were there already",
        ),
        (counted(report.problems.len() as u64), "problems told apart"),
    ];
    let tile = |(value, words): (Html, &'static str)| html!("<div class=\"tile\"><b>{}</b><span>{}</span></div>", value, Html::raw(words));
    html!(
        concat!(
            "<section id=\"coverage\" data-served=\"{}\" data-calls=\"{}\"><h2 class=\"soft\">Coverage</h2><div class=\"lead\"><div>",
            "<div class=\"figure\">{}</div><p class=\"soft\">of the calls hipDNN could have had</p></div><div>{}<ul class=\"legend\">{}</ul></div></div>",
            "<div class=\"tiles\">{}</div>{}{}{}</section>"
        ),
        number(total.served),
        number(total.calls()),
        figure,
        stack(total),
        Html::join(legend),
        Html::join(tiles.map(tile)),
        verification(report),
        failures(report),
        left_out(report),
    )
}

fn verification(report: &Report) -> Html {
    let (verified, mismatched) = (report.total.verified, report.total.mismatched);
    if verified == 0 {
        return Html::default();
    }
    if mismatched == 0 {
        return html!("<p class=\"soft\">{} results were compared with native's; all agree.</p>", counted(verified));
    }
    let problem =
        |problem: &Problem| html!("<li>{} × {}: {}</li>", counted(problem.counters.mismatched), code(&problem.call), code(&problem.text));
    html!(
        "<div class=\"alarm\"><b>{} of {} compared results differ from native's.</b><details open><summary>problems</summary><ul>{}</ul></details></div>",
        counted(mismatched),
        counted(verified),
        Html::join(report.mismatches.iter().take(BEHIND_A_RULE).map(problem)),
    )
}

fn failures(report: &Report) -> Html {
    if report.total.failed == 0 {
        return Html::default();
    }
    let problem =
        |problem: &Problem| html!("<li>{} × {}: {}</li>", counted(problem.counters.failed), code(&problem.call), code(&problem.text));
    html!(
        "<div class=\"alarm\"><b>{} call{} failed in hipDNN.</b> The program got an error for each: this comes before anything below.<details open><summary>problems</summary><ul>{}</ul></details></div>",
        counted(report.total.failed),
        Html::raw(if report.total.failed == 1 { "" } else { "s" }),
        Html::join(report.failures.iter().take(BEHIND_A_RULE).map(problem)),
    )
}

fn left_out(report: &Report) -> Html {
    if report.left_out.is_empty() {
        return Html::default();
    }
    let files = report.left_out.iter().map(|why| html!("<li>{}</li>", Html::text(why)));
    html!("<div class=\"alarm\"><b>Not everything is here.</b> These files could not be taken:<ul>{}</ul></div>", Html::join(files))
}

/// A column of a table.
struct Column {
    title: &'static str,
    numeric: bool,
    sorted: bool,
}

const fn text(title: &'static str) -> Column {
    Column { title, numeric: false, sorted: true }
}

const fn numeric(title: &'static str) -> Column {
    Column { title, numeric: true, sorted: true }
}

/// One that cannot be sorted by.
const fn drawn(title: &'static str) -> Column {
    Column { title, numeric: false, sorted: false }
}

/// A cell: what is shown, and what is sorted by.
struct Cell {
    shown: Html,
    value: String,
    wide: bool,
}

impl Cell {
    fn text(shown: Html, value: &str) -> Self {
        Self { shown, value: value.into(), wide: true }
    }

    fn count(count: u64) -> Self {
        Self { shown: counted(count), value: count.to_string(), wide: false }
    }

    fn time(ns: u64) -> Self {
        Self { shown: Html(shown::time(ns)), value: ns.to_string(), wide: false }
    }

    fn mean(histogram: &Histogram) -> Self {
        match histogram.total_ns.checked_div(histogram.count) {
            Some(mean) => Self::time(mean),
            None => Self { shown: Html::raw("–"), value: "-1".into(), wide: false },
        }
    }

    fn share(share: Option<f64>) -> Self {
        let shown = share.map_or_else(|| Html::raw("–"), |share| Html(shown::share(share)));
        Self { shown, value: share.unwrap_or(-1.0).to_string(), wide: false }
    }

    fn drawn(shown: Html) -> Self {
        Self { shown, value: String::new(), wide: false }
    }
}

fn table(id: &'static str, title: &'static str, columns: &[Column], rows: impl IntoIterator<Item = Vec<Cell>>) -> Html {
    let head = |column: &Column| {
        let class = Html::raw(if column.numeric { " class=\"n\"" } else { "" });
        let fixed = Html::raw(if column.sorted { "" } else { " data-fixed" });
        html!("<th scope=\"col\"{}{}>{}</th>", class, fixed, Html::raw(column.title))
    };
    let cell = |(column, cell): (&Column, Cell)| {
        let class = Html::raw(if column.numeric {
            " class=\"n\""
        } else if cell.wide {
            " class=\"text\""
        } else if cell.value.is_empty() {
            " class=\"drawn\""
        } else {
            ""
        });
        html!(
            "<td{} data-label=\"{}\" data-value=\"{}\"><div>{}</div></td>",
            class,
            Html::raw(column.title),
            Html::text(&cell.value),
            cell.shown
        )
    };
    let row = |cells: Vec<Cell>| html!("<tr>{}</tr>\n", Html::join(columns.iter().zip(cells).map(cell)));
    html!(
        "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"{}\"><table data-sortable id=\"table-{}\"><thead><tr>{}</tr></thead><tbody>{}</tbody></table></div>",
        Html::raw(title),
        Html::raw(id),
        Html::join(columns.iter().map(head)),
        Html::join(rows.into_iter().map(row)),
    )
}

fn section(id: &'static str, title: &'static str, hint: &'static str, content: Html) -> Html {
    html!(
        "<section id=\"{}\" aria-labelledby=\"{}-title\"><h2 id=\"{}-title\">{}</h2><p class=\"hint\">{}</p>{}</section>",
        Html::raw(id),
        Html::raw(id),
        Html::raw(id),
        Html::raw(title),
        Html::raw(hint),
        content
    )
}

fn fixes(report: &Report) -> Html {
    let hint = "Rules that sent calls to native MIOpen, those whose calls took most host time first. A device works on its own: its part of native's work is in no host time, so look at the work too.";
    if report.fixes.is_empty() {
        return section("fixes", "What to fix first", "Nothing was declined.", Html::default());
    }
    const COLUMNS: &[Column] = &[
        text("Rule"),
        numeric("Calls"),
        numeric("Host time"),
        numeric("in the shim"),
        numeric("in native"),
        numeric("Work for native"),
        numeric("Problems"),
        text("Entry points"),
    ];
    let rows = report.fixes.iter().map(|fix| {
        vec![
            Cell::text(
                html!("<code class=\"rule\">{}</code><br>{}{}", Html::text(&fix.rule), Html::text(&fix.reason), behind(report, fix)),
                &fix.rule,
            ),
            Cell::count(fix.calls),
            Cell::time(fix.time_ns()),
            Cell::time(fix.shim_ns),
            Cell::time(fix.native_ns),
            Cell { shown: Html(shown::work(fix.multiplications)), value: fix.multiplications.to_string(), wide: false },
            Cell::count(fix.problems.len() as u64),
            Cell::text(Html::join(fix.entry_points.iter().map(|call| html!("{}<br>", entry_point(call)))), &fix.entry_points.join(" ")),
        ]
    });
    section("fixes", "What to fix first", hint, table("fixes", "What to fix first", COLUMNS, rows))
}

/// The problems that a rule declined.
fn behind(report: &Report, fix: &Fix) -> Html {
    if fix.problems.is_empty() {
        return Html::default();
    }
    let line = |n: &usize| {
        let problem = &report.problems[*n];
        let calls = problem.counters.declined.get(&fix.rule).copied().unwrap_or(0);
        html!("<li>{} × {}</li>", counted(calls), code(&problem.text))
    };
    let rest = match fix.problems.len().saturating_sub(BEHIND_A_RULE) {
        0 => Html::default(),
        more => html!("<li>and {} more</li>", counted(more as u64)),
    };
    html!(
        "<details><summary>problems behind it</summary><ul>{}{}</ul></details>",
        Html::join(fix.problems.iter().take(BEHIND_A_RULE).map(line)),
        rest
    )
}

fn entry_points(report: &Report) -> Html {
    const COLUMNS: &[Column] = &[
        text("Entry point"),
        drawn("What became of its calls"),
        numeric("Calls"),
        numeric("Coverage"),
        numeric("Served"),
        numeric("Declined"),
        numeric("Failed"),
        numeric("Native by choice"),
        numeric("Cold"),
        numeric("Host time"),
    ];
    let rows = report.calls.iter().map(|(call, counters)| {
        let mut cells = vec![Cell::text(entry_point(call), call), Cell::drawn(stack(counters))];
        cells.extend(figures(counters));
        cells
    });
    let hint = "Every entry point that may be forwarded and was called.";
    section("calls", "Entry points", hint, table("calls", "Entry points", COLUMNS, rows))
}

/// The numbers that entry points and processes have alike.
fn figures(counters: &Counters) -> Vec<Cell> {
    let mut cells = vec![Cell::count(counters.calls()), Cell::share(coverage(counters))];
    cells.extend([counters.served, declined(counters), counters.failed, by_policy(counters), counters.cold].map(Cell::count));
    cells.push(Cell::time(time_ns(counters)));
    cells
}

fn phases(report: &Report) -> Html {
    const COLUMNS: &[Column] = &[
        text("Phase"),
        drawn("Share of all"),
        numeric("Total"),
        numeric("Times"),
        numeric("Mean"),
        numeric("Longest"),
        drawn("How long, from 1 µs (left) to 1 s"),
    ];
    if report.phases().is_empty() {
        return section("phases", "Where the time goes", "No phase was measured.", Html::default());
    }
    let total = report.phases().iter().fold(0, |all: u64, (_, histogram)| all.saturating_add(histogram.total_ns));
    let largest = report.phases().iter().map(|(_, histogram)| histogram.total_ns).max().unwrap_or(0);
    let rows = report.phases().iter().map(|(phase, histogram)| {
        let bar = html!(
            "<span class=\"track\" role=\"img\" aria-label=\"{}\"><span class=\"bar\" style=\"width:{}%\"></span></span>",
            Html(shown::share(shown::part(histogram.total_ns, total))),
            Html(format!("{:.2}", 100.0 * shown::part(histogram.total_ns, largest))),
        );
        vec![
            Cell::text(
                html!(
                    "<code class=\"rule\">{}</code><br><span class=\"soft\">{}</span>",
                    Html::raw(phase.name()),
                    Html::raw(phase.meaning())
                ),
                &position(phase),
            ),
            Cell::drawn(bar),
            Cell::time(histogram.total_ns),
            Cell::count(histogram.count),
            Cell::mean(histogram),
            Cell::time(histogram.max_ns),
            Cell::drawn(spark(histogram)),
        ]
    });
    let hint = "Host time by phase, all calls together, in the order in which phases happen.";
    section("phases", "Where the time goes", hint, table("phases", "Phases", COLUMNS, rows))
}

/// Sorts as phases happen.
fn position(phase: Phase) -> String {
    format!("{:02}", Phase::ALL.iter().position(|known| *known == phase).unwrap_or(0))
}

/// Buckets that are drawn: up to about a second, longer ones with the last.
const DRAWN: usize = 22;

/// The drawn buckets of a histogram, the rest in the last.
fn drawn_buckets(histogram: &Histogram) -> [u64; DRAWN] {
    let mut drawn = [0u64; DRAWN];
    for (bucket, count) in histogram.buckets.iter().enumerate() {
        let own = &mut drawn[bucket.min(DRAWN - 1)];
        *own = own.saturating_add(*count);
    }
    drawn
}

/// Columns of a histogram. Heights follow the square root, so that few long calls beside many short ones are seen.
fn columns(histogram: &Histogram, width: f64, height: f64) -> Html {
    let drawn = drawn_buckets(histogram);
    let most = drawn.iter().copied().max().unwrap_or(0);
    let column = |(bucket, count): (usize, &u64)| {
        let tall = (shown::part(*count, most).sqrt() * height).max(1.5);
        let from = bucket as f64 * width;
        let until = if bucket + 1 == DRAWN { "and longer".to_string() } else { format!("to {}", shown::bucket_start(bucket + 1)) };
        html!(
            "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"1\"><title>{} from {} {}</title></rect>",
            Html(format!("{:.1}", from + width * 0.08)),
            Html(format!("{:.1}", height - tall)),
            Html(format!("{:.1}", width * 0.84)),
            Html(format!("{tall:.1}")),
            counted(*count),
            Html(shown::bucket_start(bucket)),
            Html(until),
        )
    };
    Html::join(drawn.iter().enumerate().filter(|(_, count)| **count > 0).map(column))
}

/// In words, for those who do not see it.
fn described(histogram: &Histogram) -> Html {
    let filled = (0..BUCKETS).filter(|bucket| histogram.buckets[*bucket] > 0);
    let parts: Vec<String> = filled.map(|b| format!("{} from {}", histogram.buckets[b], shown::bucket_start(b))).collect();
    Html::text(&parts.join(", "))
}

fn spark(histogram: &Histogram) -> Html {
    html!(
        "<svg class=\"spark\" viewBox=\"0 0 132 26\" role=\"img\" aria-label=\"{}\"><line x1=\"0\" y1=\"25.5\" x2=\"132\" y2=\"25.5\"/>{}</svg>",
        described(histogram),
        columns(histogram, 6.0, 25.0),
    )
}

fn chart(histogram: &Histogram) -> Html {
    // Bucket b begins at 2^(b-1) µs.
    let ticks = [(1, "1 µs"), (4, "8 µs"), (8, "128 µs"), (11, "1 ms"), (14, "8 ms"), (18, "131 ms"), (21, "1 s")];
    let tick = |(bucket, words): (u32, &'static str)| {
        let x = Html(format!("{}", bucket * 20));
        html!(
            "<line x1=\"{}\" y1=\"0\" x2=\"{}\" y2=\"96\"/><text x=\"{}\" y=\"110\" text-anchor=\"middle\">{}</text>",
            x.clone(),
            x.clone(),
            x,
            Html::raw(words)
        )
    };
    html!(
        "<svg viewBox=\"0 0 448 116\" width=\"448\" role=\"img\" aria-label=\"{}\">{}<line x1=\"0\" y1=\"96\" x2=\"440\" y2=\"96\"/>{}</svg>",
        described(histogram),
        Html::join(ticks.map(tick)),
        columns(histogram, 20.0, 96.0),
    )
}

fn temperatures(report: &Report) -> Html {
    let part = |(name, meaning, histogram): (&'static str, &'static str, &Histogram)| {
        let mean = histogram.total_ns.checked_div(histogram.count).unwrap_or(0);
        html!(
            "<div data-temperature=\"{}\" data-count=\"{}\"><h3>{} calls: {}</h3><p class=\"soft\">{}; {} in all, {} on average, {} at most</p>{}</div>",
            Html::raw(name),
            number(histogram.count),
            Html::raw(name),
            counted(histogram.count),
            Html::raw(meaning),
            Html(shown::time(histogram.total_ns)),
            Html(shown::time(mean)),
            Html(shown::time(histogram.max_ns)),
            chart(histogram),
        )
    };
    let hint = "Host time of calls until hipDNN had taken them, or they were declined. Columns: how many calls took how long; heights follow the square root.";
    let parts = Html::join(report.temperatures().map(part));
    section("temperatures", "Cold and warm", hint, html!("<div class=\"charts\">{}</div>", parts))
}

fn caches(report: &Report) -> Html {
    const COLUMNS: &[Column] = &[
        text("What was needed"),
        drawn("Where it came from"),
        numeric("In memory"),
        numeric("On disk"),
        numeric("Built"),
        numeric("Found"),
    ];
    let rows = report.caches().map(|(name, meaning, levels)| {
        let all = levels.total();
        let part = |class: &'static str, count: u64| {
            let width = Html(format!("{:.3}", 100.0 * shown::part(count, all)));
            if count == 0 { Html::default() } else { html!("<i class=\"{}\" style=\"width:{}%\"></i>", Html::raw(class), width) }
        };
        let label = format!("{} in memory, {} on disk, {} built", levels.memory, levels.disk, levels.built);
        let bar = html!(
            "<div class=\"stack\" role=\"img\" aria-label=\"{}\">{}{}{}</div>",
            Html::text(&label),
            part("served", levels.memory),
            part("native", levels.disk),
            part("declined", levels.built)
        );
        let there = levels.memory.saturating_add(levels.disk);
        vec![
            Cell::text(html!("<span class=\"rule\">{}</span> <span class=\"soft\">{}</span>", Html::raw(name), Html::raw(meaning)), name),
            Cell::drawn(bar),
            Cell::count(levels.memory),
            Cell::count(levels.disk),
            Cell::count(levels.built),
            Cell::share((all > 0).then(|| shown::part(there, all))),
        ]
    });
    let hint = "Where plans and translations came from: memory, disk, or made anew. Memory first, as calls look for them.";
    let legend = [("served", "in memory"), ("native", "on disk"), ("declined", "built")];
    let legend = legend.map(|(class, words)| html!("<li><i class=\"{}\"></i>{}</li>", Html::raw(class), Html::raw(words)));
    let legend = html!("<ul class=\"legend\">{}</ul>", Html::join(legend));
    let done = report.disk.each().into_iter().filter(|(.., count)| *count > 0);
    let done = done.map(|(_, meaning, count)| html!("<li>{} {}</li>", counted(count), Html::raw(meaning)));
    let disk = html!("<p class=\"soft\">On disk:</p><ul class=\"legend\">{}</ul>", Html::join(done));
    let disk = if report.disk == DiskCounts::default() { Html::default() } else { disk };
    section("caches", "Caches", hint, html!("{}{}{}", table("caches", "Caches", COLUMNS, rows), legend, disk))
}

fn problems(report: &Report) -> Html {
    const COLUMNS: &[Column] = &[
        text("Problem"),
        text("Entry point"),
        numeric("Calls"),
        numeric("Served"),
        numeric("Declined"),
        numeric("Failed"),
        numeric("Host time"),
        numeric("Cold, mean"),
        numeric("Warm, mean"),
        numeric("Work of a call"),
    ];
    let rows = report.problems.iter().take(PROBLEMS_SHOWN).map(|problem| {
        let counters = &problem.counters;
        let rules: Vec<&str> = counters.declined.keys().map(String::as_str).collect();
        let why =
            if rules.is_empty() { Html::default() } else { html!("<br><span class=\"soft\">{}</span>", Html::text(&rules.join(", "))) };
        vec![
            Cell::text(html!("{}{}", code(&problem.text), why), &problem.text),
            Cell::text(entry_point(&problem.call), &problem.call),
            Cell::count(counters.calls()),
            Cell::count(counters.served),
            Cell::count(declined(counters)),
            Cell::count(counters.failed),
            Cell::time(time_ns(counters)),
            Cell::mean(&counters.cold_calls),
            Cell::mean(&counters.warm_calls),
            Cell {
                shown: Html(shown::work(problem.multiplications.unwrap_or(0))),
                value: problem.multiplications.unwrap_or(0).to_string(),
                wide: false,
            },
        ]
    });
    let more = match (report.problems.len().saturating_sub(PROBLEMS_SHOWN), report.not_told_apart) {
        (0, 0) => Html::default(),
        (more, calls) => html!(
            "<p class=\"hint\">Not in this table: {} more problems (<code>--json</code> has them), and {} calls whose problem was not remembered.</p>",
            counted(more as u64),
            counted(calls)
        ),
    };
    let hint = "What was asked for, what took most host time first. <code>hipdnn-shim record</code> makes a corpus of these that <code>replay</code> runs.";
    section("problems", "Problems", hint, html!("{}{}", table("problems", "Problems", COLUMNS, rows), more))
}

fn processes(report: &Report) -> Html {
    const COLUMNS: &[Column] = &[
        numeric("Rank"),
        text("Process"),
        drawn("What became of its calls"),
        numeric("Calls"),
        numeric("Coverage"),
        numeric("Served"),
        numeric("Declined"),
        numeric("Failed"),
        numeric("Native by choice"),
        numeric("Cold"),
        numeric("Host time"),
    ];
    let rows = report.processes.iter().map(|Member { file, process, total }| {
        let rank = process.rank.map_or_else(|| Html::raw("–"), number);
        let name = html!(
            "{} {} on {}<br><span class=\"soft\">{}</span>",
            code(&process.program),
            number(process.pid),
            Html::text(&process.host),
            Html::text(file)
        );
        let mut cells = vec![
            Cell { shown: rank, value: process.rank.map_or(-1, i64::from).to_string(), wide: false },
            Cell::text(name, file),
            Cell::drawn(stack(total)),
        ];
        cells.extend(figures(total));
        cells
    });
    let hint = "Each statistics file is one process. Ranks that differ much from the others are worth a look.";
    let components = report.components.iter().map(|component| html!("<li>{}</li>", Html::text(component)));
    let components = html!("<h3>What they ran on</h3><ul class=\"plain\">{}</ul>", Html::join(components));
    section("processes", "Processes", hint, html!("{}{}", table("processes", "Processes", COLUMNS, rows), components))
}

fn meaning() -> Html {
    section(
        "meaning",
        "What the numbers mean",
        "Counted by the shim, exactly; nothing is sampled.",
        Html::raw(concat!(
            "<dl><dt>Coverage</dt><dd>Served calls among those that were served, declined or failed. Calls that are native's because the ",
            "program chose an algorithm or a solution of native's do not count.</dd>",
            "<dt>Declined</dt><dd>A rule of the translator or of the host said no. Native MIOpen ran the call as if the shim were not there.</dd>",
            "<dt>Host time</dt><dd>What the calling thread waited, from the call's arrival in the shim to its return; of a declined call, native's ",
            "part too. On a device that works on its own, that is the time to queue the work, and whatever compiles or searches on the host; ",
            "how long the device works is in no number here.</dd>",
            "<dt>Work</dt><dd>Multiplications of a problem's convolutions if no tap falls on padding. For native: of declined calls that compute, ",
            "as far as their problem is known.</dd>",
            "<dt>Cold</dt><dd>The problem was new to its handle: something had to be looked up, translated or built.</dd>",
            "<dt>Plans in memory</dt><dd>That a problem is declined is remembered like a plan, so repeated declines are found in memory too.</dd></dl>"
        )),
    )
}

fn footer(report: &Report) -> Html {
    let newest = report.processes.iter().map(|member| member.process.written_ms).max().unwrap_or(0);
    let oldest = report.processes.iter().map(|member| member.process.began_ms).min().unwrap_or(0);
    let took = newest.saturating_sub(oldest).saturating_mul(1_000_000);
    html!(
        "<footer>From the first process's beginning to the last statistics: {}. This page is complete: it asks for nothing from elsewhere.</footer>",
        Html(shown::time(took))
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::merged::tests::{HOSTILE, sample};

    fn of(name: &str) -> String {
        page(&Report::of(&[(name.into(), sample(1, name)), ("b".into(), sample(2, name))], &[format!("file {name}")]))
    }

    #[test]
    fn text_of_others_stays_text() {
        let page = of(HOSTILE);
        // The page's own script and images, and no others.
        assert_eq!((page.matches("<script").count(), page.matches("</script").count(), page.matches("<img").count()), (1, 1, 0));
        assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;") && page.contains("\\u{202e}"));
        assert!(!page.contains(|c: char| c.is_control() && c != '\n') && !page.contains('\u{202e}'));
        // Every tag is the same as with a name that breaks nothing.
        let tags = |page: &str| page.matches('<').count();
        assert_eq!(tags(&page), tags(&of("tame")));
        assert_eq!(page.matches("{}").count(), of("tame").matches("{}").count());
    }

    #[test]
    fn nothing_comes_from_elsewhere() {
        let page = of("tame");
        for wrong in ["http:", "https:", "src=", "url(", "@import", "<iframe", "<form"] {
            assert!(!page.contains(wrong), "{wrong}");
        }
        assert!(page.contains("default-src 'none'"));
    }

    #[test]
    fn numbers_are_those_of_the_statistics() {
        let page = of("tame");
        for fact in [
            "data-served=\"6\" data-calls=\"14\"",
            "data-ending=\"failed\" data-count=\"2\"",
            "data-temperature=\"warm\" data-count=\"6\"",
            "50.0 %",
            "<b>2 of 4 compared results differ from native's.</b>",
            "<li>8 entries that were found</li>",
        ] {
            assert!(page.contains(fact), "{fact}");
        }
    }

    #[test]
    fn an_empty_job_has_a_page() {
        let page = page(&Report::of(&[("a".into(), crate::report::read::tests::empty())], &[]));
        assert!(page.contains("Nothing was declined.") && page.contains("<div class=\"figure\">–</div>"));
    }
}
