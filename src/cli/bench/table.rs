//! The report as text on a terminal. The page shows the same lines.

use std::fmt::Write as _;

use crate::load::{Ended, Percentiles, Summary, Verdict, float};

/// `12,345`, `98.7`, `1.23`: three digits or more.
pub(super) fn count(value: f64) -> String {
    let decimals = match value {
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    let text = format!("{value:.decimals$}");
    if decimals > 0 {
        return text;
    }
    let mut out = String::new();
    for (index, digit) in text.chars().enumerate() {
        if index > 0 && (text.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Milliseconds.
pub(super) fn ms(value: f64) -> String {
    if value < 100.0 {
        format!("{value:.2}")
    } else {
        count(value)
    }
}

pub(super) fn whole(number: u64) -> String {
    if number < 1_000 {
        number.to_string()
    } else {
        count(float(number))
    }
}

fn mebibytes(bytes: u64) -> String {
    count(float(bytes) / f64::from(1 << 20))
}

/// The three latencies with their names.
pub(super) fn latencies(summary: &Summary) -> [(&'static str, Percentiles); 3] {
    [
        ("acknowledged", summary.ack),
        ("at a receiver", summary.delivery),
        ("at the last receiver", summary.last_delivery),
    ]
}

/// What was done, in one line.
pub(super) fn what(summary: &Summary) -> String {
    let plan = &summary.plan;
    let pace = match (plan.window, plan.rate_per_s) {
        (_, Some(rate)) => format!("open loop at {}/s", whole(u64::from(rate))),
        (window, _) => format!("closed loop, {} unanswered each", window.unwrap_or(1)),
    };
    let several = |number: u32, one: &str, many: &str| {
        format!("{} {}", whole(u64::from(number)), if number == 1 { one } else { many })
    };
    format!(
        "{} with {}, {}, {}; {pace}; texts of {} bytes of JSON; {:.1} s counted after {:.1} s",
        several(plan.conversations, "conversation", "conversations"),
        several(plan.members, "member", "members each"),
        several(plan.senders, "sender", "senders"),
        several(plan.connections, "connection", "connections"),
        plan.mean_content_bytes,
        summary.counted_s,
        plan.warm_up_s,
    )
}

/// Name and text of each line below the latencies.
pub(super) fn lines(summary: &Summary) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    if let Some(server) = &summary.server {
        let per = |micros: f64| {
            if summary.acked == 0 {
                "–".to_owned()
            } else {
                count(micros)
            }
        };
        lines.push((
            "server",
            format!(
                "{:.2} cores, {} µs of CPU an acknowledged message, {} µs a delivery; memory {} MiB, at most {} MiB (process {})",
                server.cores,
                per(server.cpu_us_per_acked),
                per(server.cpu_us_per_delivery),
                mebibytes(server.rss_bytes_first),
                mebibytes(server.rss_bytes_max),
                server.pid
            ),
        ));
        if let (Some(cores), Some(micros)) = (server.also_cores, server.also_cpu_us_per_acked) {
            lines.push((
                "beside it",
                format!(
                    "{cores:.2} cores, {} µs an acknowledged message (--also-pid)",
                    per(micros)
                ),
            ));
        }
    }
    let load = &summary.load;
    let mut own = format!(
        "{:.2} cores; its loop was {} ms late at p99",
        load.cores,
        ms(load.late.p99_ms)
    );
    if summary.plan.rate_per_s.is_some() {
        write!(own, ", planned sends went out {} ms late at p99", ms(load.slip.p99_ms)).ok(); // to a String
    }
    lines.push(("this load", own));
    lines.push(("trouble", trouble(summary)));
    lines
}

fn trouble(summary: &Summary) -> String {
    let trouble = &summary.trouble;
    let mut parts: Vec<String> = trouble
        .by_sort
        .iter()
        .map(|(sort, number)| format!("{sort} {}", whole(*number)))
        .collect();
    for (number, what) in [
        (trouble.reconnects, "reconnects"),
        (trouble.duplicates, "retries answered with the first acknowledgement"),
        (trouble.refused, "messages refused for good"),
        (trouble.unanswered, "sends never answered"),
        (
            trouble.never_sent,
            "planned sends never sent, the server was too far behind",
        ),
    ] {
        if number > 0 {
            parts.push(format!("{} {what}", whole(number)));
        }
    }
    if trouble.by_sort.contains_key("rate_limited") {
        parts.push(
            "its limits.requests_per_second holds for each user: spread the load over more senders, or set it to 0"
                .to_owned(),
        );
    }
    if parts.is_empty() {
        "none".to_owned()
    } else {
        parts.join(", ")
    }
}

/// What the check of deliveries says, then what else makes the run no good.
pub(super) fn judgement(summary: &Summary) -> Vec<String> {
    let check = &summary.delivery_check;
    let found = &check.findings;
    let mut said = Vec::new();
    if let Ended::GaveUp(why) = &summary.ended {
        said.push(format!("ENDED EARLY: {why}"));
    } else if summary.ended == Ended::Interrupted {
        said.push("stopped before the planned end".to_owned());
    }
    let over_all = format!(
        "{} acknowledged, {} deliveries",
        whole(check.acked),
        whole(check.delivered)
    );
    if found.total() == 0 {
        said.push(format!(
            "delivery check: {over_all}: each message at every receiver exactly once and in order"
        ));
    } else {
        said.push(format!(
            "DELIVERY CHECK FAILED: {over_all}: {} lost, {} doubled, {} out of order, {} stored twice, {} mixed up",
            whole(found.lost),
            whole(found.doubled),
            whole(found.reordered),
            whole(found.stored_twice),
            whole(found.mixed_up)
        ));
        said.extend(found.first_offenders.iter().map(|offender| format!("  {offender}")));
    }
    said.extend(
        summary
            .trouble
            .first_refused
            .iter()
            .map(|refused| format!("refused: {refused}")),
    );
    if let Some(why) = &summary.load.saturated {
        said.push(format!(
            "GENERATOR SATURATED: {why}. The figures do not count: use a lower rate, fewer connections, or another machine for the load."
        ));
    }
    if summary.verdict() == Verdict::Bad && found.total() == 0 && summary.ended == Ended::Complete {
        said.push("FAILED: not every send was acknowledged, see trouble".to_owned());
    }
    said
}

pub(super) fn print(summary: &Summary) {
    println!("{}\n{}\n", summary.url, what(summary));
    for (name, per_second, number) in [
        ("acknowledged", summary.acked_per_s, summary.acked),
        ("delivered", summary.delivered_per_s, summary.delivered),
    ] {
        println!("{name:<22}{:>10}/s  ({})", count(per_second), whole(number));
    }
    println!(
        "\n{:<22}{:>9}{:>9}{:>9}{:>9}{:>9}",
        "ms from the plan", "p50", "p90", "p99", "p99.9", "max"
    );
    for (name, latency) in latencies(summary) {
        print!("{name:<22}");
        if latency.count == 0 {
            println!("{:>9}", "–");
            continue;
        }
        for value in [
            latency.p50_ms,
            latency.p90_ms,
            latency.p99_ms,
            latency.p999_ms,
            latency.max_ms,
        ] {
            print!("{:>9}", ms(value));
        }
        println!();
    }
    println!();
    for (name, text) in lines(summary) {
        println!("{name:<12}{text}");
    }
    println!();
    for line in judgement(summary) {
        println!("{line}");
    }
}
