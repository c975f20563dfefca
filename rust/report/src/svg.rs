//! Elements of an SVG picture: escaped text, short numbers.

use std::fmt::Write;

/// Colours for any colour vision, on light and dark (Okabe and Ito, 2008, without black and yellow), and more for many.
pub(crate) const COLOURS: [&str; 13] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#8c8c8c", "#7b4fa3", "#999933",
    "#661100", "#44bb99", "#bb5566", "#4477aa",
];

/// Names with the same colour in every chart, as indices into [`COLOURS`].
const KNOWN: [(&str, usize); 21] = [
    ("GPU", 0),
    ("NPU", 7),
    ("bus", 1),
    ("PCIe", 6),
    ("DIMMs", 2),
    ("host", 3),
    ("link", 4),
    ("links", 4),
    ("software", 5),
    ("compute", 0),
    ("DRAM", 1),
    ("latency", 2),
    ("set-up", 3),
    ("messages", 4),
    ("transfer", 5),
    ("waits", 6),
    ("control", 7),
    ("queue", 8),
    ("synchronisation", 9),
    ("waits for GPU", 11),
    ("waits for channels", 12),
];

/// Names of a legend with colours: known ones, else the next free one.
pub(crate) fn colours<'a>(names: impl Iterator<Item = &'a str> + Clone) -> Vec<(&'a str, &'static str)> {
    let known = |name: &str| KNOWN.iter().find(|(known, _)| *known == name).map(|(_, colour)| *colour);
    let taken: Vec<usize> = names.clone().filter_map(known).collect();
    let free: Vec<usize> = (0..COLOURS.len()).filter(|colour| !taken.contains(colour)).collect();
    let mut next = free.iter().cycle();
    let mut colour = |name| COLOURS[known(name).or_else(|| next.next().copied()).unwrap_or(0)];
    names.map(|name| (name, colour(name))).collect()
}

/// Approximate width of a letter in the style below.
pub(crate) const LETTER: f64 = 6.6;

/// Breaks text into lines of at most `width` units, at words and hyphens.
pub(crate) fn wrap(text: &str, width: f64) -> Vec<String> {
    let most = (width / LETTER) as usize;
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        let length = word.chars().count();
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + length <= most => {
                line.push(' ');
                line.push_str(word);
            }
            _ if length > most => lines.extend(word.split_inclusive('-').map(str::to_owned)),
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            // Control characters; XML 1.0 lacks some of them.
            c if c.is_control() && c != '\n' && c != '\t' => escaped.push('\u{FFFD}'),
            c => escaped.push(c),
        }
    }
    escaped
}

/// A coordinate with at most one decimal.
pub(crate) fn at(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").unwrap_or(&text).to_owned()
}

#[derive(Clone, Copy)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

pub(crate) struct Picture {
    width: f64,
    height: f64,
    body: String,
}

impl Picture {
    pub fn new(width: f64, height: f64) -> Self {
        Self { width, height, body: String::new() }
    }

    pub fn text(&mut self, x: f64, y: f64, anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let (x, y, text) = (at(x), at(y), escape(text));
        let _ = writeln!(self.body, r#"<text x="{x}" y="{y}" text-anchor="{anchor}">{text}</text>"#);
    }

    pub fn upright_text(&mut self, x: f64, y: f64, text: &str) {
        let (x, y, text) = (at(x), at(y), escape(text));
        let _ = writeln!(
            self.body,
            r#"<text x="{x}" y="{y}" text-anchor="middle" transform="rotate(-90 {x} {y})">{text}</text>"#
        );
    }

    pub fn line(&mut self, (x1, y1): (f64, f64), (x2, y2): (f64, f64), class: &str) {
        let [x1, y1, x2, y2] = [x1, y1, x2, y2].map(at);
        let _ = writeln!(self.body, r#"<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" class="{class}"/>"#);
    }

    pub fn bar(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), colour: &str, tip: &str) {
        let [x, y, width, height] = [x, y, width.max(0.0), height.max(0.0)].map(at);
        let tip = escape(tip);
        let _ = writeln!(
            self.body,
            r#"<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="{colour}"><title>{tip}</title></rect>"#
        );
    }

    pub fn polyline(&mut self, points: &[(f64, f64)], colour: &str, tip: &str) {
        let points: Vec<String> = points.iter().map(|&(x, y)| format!("{},{}", at(x), at(y))).collect();
        let (points, tip) = (points.join(" "), escape(tip));
        let _ = writeln!(
            self.body,
            r#"<polyline points="{points}" stroke="{colour}" class="series"><title>{tip}</title></polyline>"#
        );
    }

    pub fn dot(&mut self, (x, y): (f64, f64), r: f64, (colour, tip): (&str, &str), link: Option<&str>) {
        let (x, y, tip) = (at(x), at(y), escape(tip));
        let dot =
            format!(r#"<circle cx="{x}" cy="{y}" r="{r}" fill="{colour}"><title>{tip}</title></circle>"#);
        let _ = match link {
            Some(link) => writeln!(self.body, r#"<a href="{}" target="_blank">{dot}</a>"#, escape(link)),
            None => writeln!(self.body, "{dot}"),
        };
    }

    /// A row of names, wrapped at the picture's width; returns the first free height below.
    pub fn legend(&mut self, names: &[(&str, &str)], left: f64, top: f64) -> f64 {
        let (mut x, mut y) = (left, top);
        for (name, colour) in names {
            let width = 30.0 + LETTER * name.chars().count() as f64;
            if x > left && x + width > self.width {
                (x, y) = (left, y + 18.0);
            }
            self.body.push_str("<g class=\"key\">\n");
            self.bar((x, y - 9.0), (12.0, 10.0), colour, name);
            self.text(x + 16.0, y, Anchor::Start, name);
            self.body.push_str("</g>\n");
            x += width;
        }
        y + 18.0
    }

    pub fn finish(self, title: &str) -> String {
        let (width, height, title) = (at(self.width), at(self.height), escape(title));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" role=\"img\">\n\
             <title>{title}</title>\n\
             <style>text{{font:12px system-ui,sans-serif;fill:currentColor}}.series{{fill:none;stroke-width:1.8}}\
             .axis{{stroke:currentColor}}.grid{{stroke:currentColor;opacity:.15}}\
             .reference{{stroke:currentColor;stroke-dasharray:5 4;opacity:.7}}</style>\n{}</svg>\n",
            self.body
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_has_its_colour_in_every_chart_and_no_other_name_has_it() {
        let of = |names: &[&'static str]| -> Vec<&str> {
            colours(names.iter().copied()).into_iter().map(|(_, colour)| colour).collect()
        };
        let (first, second) = (of(&["GPU", "bus", "DIMMs"]), of(&["a", "DIMMs", "b", "GPU"]));
        assert_eq!((second[1], second[3]), (first[2], first[0]));
        assert!(!second[..1].contains(&first[0]) && second[0] != second[2] && second[2] != first[2]);
        assert_eq!(colours((0..20).map(|_| "x")).len(), 20);
    }
}
