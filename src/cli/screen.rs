//! Lines of text for a person: escaping, wrapping, ages, tables.

use comfy_table::Table;
use comfy_table::presets::NOTHING;
use jiff::Timestamp;

/// Prose is at most this wide, whatever the terminal.
const PROSE: usize = 79;

/// Text from the cluster is data: control characters, escape sequences and what reorders text are shown escaped
/// (kubernetes/kubernetes#101695).
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() || reorders(c) => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    out
}

/// Does it turn text around, or break lines where none break?
pub fn reorders(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// JSON that means the same, with JSON's own escapes for what a terminal would obey. Its grammar asks for them below
/// U+0020 only, and of what it leaves raw all is inside of strings.
pub fn harmless(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if (c.is_control() && c != '\n') || reorders(c) {
            out.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            out.push(c);
        }
    }
    out
}

/// As kubectl prints an age (`duration.HumanDuration`): `48m`, `2d3h`, `12d`.
pub fn age(from: Option<Timestamp>, to: Timestamp) -> String {
    let Some(from) = from else { return "<unknown>".into() };
    let seconds = to.duration_since(from).as_secs();
    let two = |big: i64, unit: char, small: i64, small_unit: char| match small {
        0 => format!("{big}{unit}"),
        small => format!("{big}{unit}{small}{small_unit}"),
    };
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match seconds {
        ..0 => "0s".into(),
        0..120 => format!("{seconds}s"),
        120..600 => two(minutes, 'm', seconds % 60, 's'),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => two(hours, 'h', minutes % 60, 'm'),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => two(days, 'd', hours % 24, 'h'),
        691_200..63_072_000 => format!("{days}d"),
        63_072_000..252_288_000 => two(days / 365, 'y', days % 365, 'd'),
        _ => format!("{}y", days / 365),
    }
}

/// `1 Pod`, `2 Pods`.
pub fn count(n: usize, one: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{n} {one}s") }
}

/// `a`, `a and b`, `a, b and c`.
pub fn listed(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [head @ .., last] => format!("{} and {last}", head.join(", ")),
    }
}

/// How a table is printed.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// Of a terminal, where the last column alone is cut.
    pub width: Option<usize>,
    pub headers: bool,
    pub colour: bool,
}

/// The line with the word that begins at the column in its colour: red needs somebody, yellow a look. There is no green:
/// the same configuration is not a healthy one.
fn coloured(line: &str, column: usize) -> String {
    let at = line.char_indices().nth(column).map_or(line.len(), |(at, _)| at);
    let (before, rest) = line.split_at(at);
    let (cell, after) = rest.split_at(rest.find(' ').unwrap_or(rest.len()));
    let colour = match cell.split([':', '+']).next().unwrap_or_default() {
        "Missing" | "Changed" => 31,
        "Edited" | "Recreated" | "Unknown" => 33,
        _ => return line.to_string(),
    };
    format!("{before}\u{1b}[{colour}m{cell}\u{1b}[0m{after}")
}

/// A screen in the making. Everything that goes in is escaped; only we break lines.
#[derive(Default)]
pub struct Screen {
    text: String,
}

impl Screen {
    pub fn line(&mut self, line: &str) {
        self.text.push_str(escape(line).trim_end());
        self.text.push('\n');
    }

    pub fn blank(&mut self) {
        self.text.push('\n');
    }

    /// A paragraph, wrapped at words.
    pub fn prose(&mut self, text: &str) {
        self.hanging("", text);
    }

    /// A paragraph behind a label: `Content   settings as …`, further lines under the first one's text.
    pub fn hanging(&mut self, label: &str, text: &str) {
        let mut line = label.to_string();
        let indent = label.chars().count();
        let mut empty = true;
        for word in escape(text).split(' ').filter(|w| !w.is_empty()) {
            if !empty && line.chars().count() + 1 + word.chars().count() > PROSE {
                self.text.push_str(line.trim_end());
                self.text.push('\n');
                line = " ".repeat(indent);
                empty = true;
            }
            if !empty {
                line.push(' ');
            }
            line.push_str(word);
            empty = false;
        }
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    /// Three spaces between columns, as kubectl.
    pub fn table(&mut self, header: &[&str], rows: &[Vec<String>], look: Look) {
        let mut table = Table::new();
        table.load_style(NOTHING);
        table.set_header(header.iter().map(ToString::to_string).collect::<Vec<_>>());
        for row in rows {
            table.add_row(row.iter().map(|cell| escape(cell)).collect::<Vec<_>>());
        }
        for column in table.column_iter_mut() {
            column.set_padding((0, 3));
        }
        let lines: Vec<String> = table.lines().map(|line| line.trim_end().to_string()).collect();
        let config = lines.first().and_then(|header| header.find("CONFIG"));
        for line in lines.iter().skip(usize::from(!look.headers)) {
            let mut line = line.clone();
            if let Some(width) = look.width.filter(|width| line.chars().count() > *width) {
                line = line.chars().take(width.saturating_sub(3)).collect::<String>() + "...";
            }
            if let Some(at) = config.filter(|_| look.colour) {
                line = coloured(&line, at);
            }
            self.text.push_str(&line);
            self.text.push('\n');
        }
    }

    /// What the proofs above rest on.
    pub fn assumptions(&mut self, assumptions: &[&str]) {
        for assumption in assumptions {
            self.hanging("Assumed:    ", assumption);
        }
    }

    pub fn into_text(self) -> String {
        self.text
    }
}
