//! The report as one page that needs nothing else: no script, no font, no picture from elsewhere.

use std::fmt::Write as _;

use super::charts::{Axis, Chart, Line};
use super::table::{count, judgement, latencies, lines, ms, what, whole};
use crate::load::{Percentiles, Second, Summary, Verdict, float};

const STYLE: &str = include_str!("page.css");
/// Where the curves by percentile end, in nines: 99.999 %.
const NINES_MAX: f64 = 5.0;
const MEBIBYTE: f64 = 1_048_576.0;

/// The whole page.
pub(super) fn page(summary: &Summary) -> anyhow::Result<String> {
    let (class, verdict) = match summary.verdict() {
        Verdict::Good => ("good", "Good"),
        Verdict::Bad => ("bad", "Failed"),
        Verdict::Saturated => ("bad", "Generator saturated: the figures do not count"),
    };
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>onescribe bench: {url}</title>\n<style>\n{STYLE}</style></head>\n<body><main>\n\
         <h1>{url}</h1><p>{what}</p>\n<p class=\"{class}\"><strong>{verdict}</strong></p>\n",
        url = escaped(&summary.url),
        what = escaped(&what(summary)),
    );
    tiles(&mut out, summary)?;
    out.push_str("<ul>");
    for line in judgement(summary) {
        write!(out, "<li>{}</li>", escaped(&line))?;
    }
    out.push_str("</ul>\n");
    table(&mut out, summary)?;
    out.push_str("<div class=\"charts\">\n");
    for chart in charts(summary) {
        write!(out, "<figure><figcaption>{}", chart.title)?;
        for (number, line) in (1..).zip(&chart.lines) {
            write!(out, " <span class=\"key k{number}\">{}</span>", line.name)?;
        }
        writeln!(out, "</figcaption>{}</figure>", chart.svg()?)?;
    }
    out.push_str("</div>\n<dl>");
    for (name, text) in lines(summary) {
        write!(out, "<dt>{name}</dt><dd>{}</dd>", escaped(&text))?;
    }
    writeln!(
        out,
        "</dl>\n<footer>onescribe {}</footer>\n</main></body></html>",
        env!("CARGO_PKG_VERSION")
    )?;
    Ok(out)
}

fn tiles(out: &mut String, summary: &Summary) -> anyhow::Result<()> {
    let mut tiles = vec![
        ("acknowledged a second", count(summary.acked_per_s)),
        ("delivered a second", count(summary.delivered_per_s)),
        ("ms to the acknowledgement, p50", ms(summary.ack.p50_ms)),
        ("ms to the acknowledgement, p99", ms(summary.ack.p99_ms)),
        ("ms to the last receiver, p99", ms(summary.last_delivery.p99_ms)),
    ];
    if let Some(server) = &summary.server {
        tiles.push(("µs of server CPU a message", count(server.cpu_us_per_acked)));
    }
    out.push_str("<div class=\"tiles\">");
    for (name, value) in tiles {
        write!(out, "<div><b>{value}</b>{name}</div>")?;
    }
    out.push_str("</div>\n");
    Ok(())
}

fn table(out: &mut String, summary: &Summary) -> anyhow::Result<()> {
    out.push_str(
        "<div class=\"wide\"><table><tr><th>milliseconds from the planned send</th><th>p50</th><th>p90</th><th>p99</th>\
         <th>p99.9</th><th>max</th><th>messages</th></tr>",
    );
    for (name, latency) in latencies(summary) {
        write!(out, "<tr><td>{name}</td>")?;
        for value in [
            latency.p50_ms,
            latency.p90_ms,
            latency.p99_ms,
            latency.p999_ms,
            latency.max_ms,
        ] {
            write!(out, "<td>{}</td>", ms(value))?;
        }
        write!(out, "<td>{}</td></tr>", whole(latency.count))?;
    }
    out.push_str("</table></div>\n");
    Ok(())
}

/// Those that have something to show.
fn charts(summary: &Summary) -> Vec<Chart> {
    let line = |name, of: fn(&Second) -> Option<f64>| Line {
        name,
        points: points(summary, of),
    };
    let had_trouble = summary
        .seconds
        .iter()
        .any(|second| second.errors + second.reconnects > 0);
    let acked = line("acknowledged", |second| Some(rate(second.acked, second)));
    let sent = line("sent", |second| Some(rate(second.sent, second)));
    let delivered = line("delivered", |second| Some(rate(second.delivered, second)));
    let server = line("server", |second| second.server_cores);
    let load = line("this load", |second| Some(second.load_cores));
    let beside = line("beside the server", |second| second.also_cores);
    let memory = line("resident", |second| Some(float(second.server_rss_bytes?) / MEBIBYTE));
    let errors = line("errors", |second| Some(float(second.errors)));
    let reconnects = line("reconnects", |second| Some(float(second.reconnects)));
    let mut charts = vec![
        over_time("Messages a second", vec![acked, sent]),
        over_time("Deliveries a second", vec![delivered]),
        latency_over_time(summary, "ms to the acknowledgement", |second| second.ack),
        latency_over_time(summary, "ms to the last receiver", |second| second.last_delivery),
        by_percentile(summary),
        over_time("Cores", vec![server, load, beside]),
        over_time("MiB of memory of the server", vec![memory]),
    ];
    if had_trouble {
        charts.push(over_time("Trouble a second", vec![errors, reconnects]));
    }
    charts.retain(|chart| !chart.is_empty());
    charts.into_iter().map(without_empty_lines).collect()
}

fn points(summary: &Summary, of: fn(&Second) -> Option<f64>) -> Vec<(f64, f64)> {
    let seconds = summary.seconds.iter();
    seconds.filter_map(|second| Some((second.at_s, of(second)?))).collect()
}

fn rate(number: u64, second: &Second) -> f64 {
    float(number) / second.length_s.max(0.001)
}

const fn over_time(title: &'static str, lines: Vec<Line>) -> Chart {
    Chart {
        title,
        axis: Axis::Time,
        logarithmic: false,
        lines,
    }
}

/// Seconds in which nothing was timed have no point.
fn latency_over_time(summary: &Summary, title: &'static str, of: fn(&Second) -> Percentiles) -> Chart {
    let line = |name, value: fn(&Percentiles) -> f64| {
        let seconds = summary.seconds.iter().map(|second| (second.at_s, of(second)));
        let timed = seconds.filter(|(_, latency)| latency.count > 0);
        Line {
            name,
            points: timed.map(|(at, latency)| (at, value(&latency))).collect(),
        }
    };
    let p50 = line("p50", |latency| latency.p50_ms);
    let p99 = line("p99", |latency| latency.p99_ms);
    let p999 = line("p99.9", |latency| latency.p999_ms);
    Chart {
        logarithmic: true,
        ..over_time(title, vec![p50, p99, p999])
    }
}

fn by_percentile(summary: &Summary) -> Chart {
    let line = |name, curve: &[(f64, f64)]| {
        let points = curve.iter().map(|(share, value)| (nines(*share), *value));
        Line {
            name,
            points: points.filter(|(x, _)| *x <= NINES_MAX).collect(),
        }
    };
    Chart {
        title: "ms by percentile",
        axis: Axis::Percentile,
        logarithmic: true,
        lines: vec![
            line("acknowledged", &summary.curves.ack),
            line("at a receiver", &summary.curves.delivery),
            line("at the last receiver", &summary.curves.last_delivery),
        ],
    }
}

fn without_empty_lines(mut chart: Chart) -> Chart {
    chart.lines.retain(|line| !line.points.is_empty());
    chart
}

/// 0.9 is 1, 0.99 is 2.
fn nines(share: f64) -> f64 {
    -(1.0 - share).max(1e-9).log10()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
