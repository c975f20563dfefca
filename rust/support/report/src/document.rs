//! A report: headings, paragraphs, tables and charts in one HTML file.

use crate::svg::escape;
use std::fmt::Write;

const STYLE: &str = "
:root{color-scheme:light dark}
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.6rem}h2{font-size:1.2rem;margin-top:2.2rem}
table{border-collapse:collapse;margin:1rem 0;font-variant-numeric:tabular-nums}
th,td{padding:.25rem .7rem;text-align:right;border-bottom:1px solid color-mix(in srgb,currentColor 20%,transparent)}
th:first-child,td:first-child{text-align:left}
details.text th,details.text td{text-align:left;vertical-align:top}
.wide{overflow-x:auto}svg{max-width:100%;height:auto;display:block;margin:1rem 0}
@media print{h2{break-after:avoid}svg,table{break-inside:avoid}}
";

/// A report that grows; finished, it is one file that needs no other.
#[derive(Clone, Debug)]
pub struct Report {
    title: String,
    body: String,
}

impl Report {
    /// An empty report.
    pub fn new(title: &str) -> Self {
        Self { title: title.to_owned(), body: format!("<h1>{}</h1>\n", escape(title)) }
    }

    /// A heading.
    #[must_use]
    pub fn section(mut self, heading: &str) -> Self {
        let _ = writeln!(self.body, "<h2>{}</h2>", escape(heading));
        self
    }

    /// A paragraph.
    #[must_use]
    pub fn paragraph(mut self, text: &str) -> Self {
        let _ = writeln!(self.body, "<p>{}</p>", escape(text));
        self
    }

    /// A table; the first column is text, the others are numbers.
    #[must_use]
    pub fn table(mut self, head: &[&str], rows: &[Vec<String>]) -> Self {
        let cells = |tag: &str, cells: &mut dyn Iterator<Item = &str>| -> String {
            cells.map(|cell| format!("<{tag}>{}</{tag}>", escape(cell))).collect()
        };
        let head = cells("th", &mut head.iter().copied());
        let _ = write!(self.body, "<div class=\"wide\"><table>\n<tr>{head}</tr>\n");
        for row in rows {
            let _ = writeln!(self.body, "<tr>{}</tr>", cells("td", &mut row.iter().map(String::as_str)));
        }
        self.body.push_str("</table></div>\n");
        self
    }

    /// A long table behind a line that opens it; all columns are text.
    #[must_use]
    pub fn folded_table(mut self, summary: &str, head: &[&str], rows: &[Vec<String>]) -> Self {
        let _ = writeln!(self.body, "<details class=\"text\"><summary>{}</summary>", escape(summary));
        self = self.table(head, rows);
        self.body.push_str("</details>\n");
        self
    }

    /// A chart, as its `draw` has returned it.
    #[must_use]
    pub fn chart(mut self, svg: &str) -> Self {
        self.body.push_str(svg);
        self
    }

    /// The file.
    pub fn finish(self) -> String {
        let title = escape(&self.title);
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
             <meta name=\"viewport\" content=\"width=device-width\"/>\n<title>{title}</title>\n\
             <style>{STYLE}</style>\n</head>\n<body>\n{}</body>\n</html>\n",
            self.body
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_well_formed_and_whole() {
        let rows = vec![vec!["a < b".to_owned(), "1".to_owned()]];
        let html = Report::new("R & D")
            .section("One")
            .paragraph("Text with \"quotes\".")
            .table(&["what", "n"], &rows)
            .folded_table("a & b", &["c"], &[vec!["d > e".to_owned()]])
            .chart(&crate::LineChart::new("t", "x", "y").draw().unwrap())
            .finish();
        let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
        let document = roxmltree::Document::parse_with_options(&html, options).unwrap();
        let text = |tag: &str| {
            document.descendants().find(|n| n.has_tag_name(tag)).unwrap().text().unwrap().to_owned()
        };
        assert_eq!((text("h1").as_str(), text("td").as_str()), ("R & D", "a < b"));
        assert_eq!(text("summary"), "a & b");
        assert!(!html.contains("http://") || html.matches("http://").count() == 1, "nothing from outside");
        assert!(!html.contains("<script"));
    }
}
