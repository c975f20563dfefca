//! A report: headings, paragraphs, tables and charts in one HTML file.

use crate::svg::escape;
use std::fmt::Write;

const STYLE: &str = "
:root{color-scheme:light dark}
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.4rem;margin-bottom:.3rem}h2{font-size:1.2rem;margin-top:2.2rem}.setting{margin-top:0;opacity:.8}
table{border-collapse:collapse;margin:1rem 0;font-variant-numeric:tabular-nums}
caption{text-align:left}caption,.number{font-size:.85em;opacity:.8}
th,td{padding:.25rem .7rem;text-align:right;border-bottom:1px solid color-mix(in srgb,currentColor 20%,transparent)}
th:first-child,td:first-child,.t{text-align:left}
details.text th,details.text td,table.text th,table.text td{text-align:left;vertical-align:top}
table.text td+td{overflow-wrap:anywhere}
pre{white-space:pre-wrap;overflow-wrap:anywhere}var{font-style:normal;font-weight:bold}
tr[data-values]{cursor:pointer}tr.chosen{outline:2px solid}
.wide{overflow-x:auto}figure{margin:1.5rem 0}svg{max-width:100%;min-width:34rem;height:auto;display:block}
svg .key{cursor:pointer}svg .key.off{opacity:.35}svg .hidden{display:none}
@media print{nav,.back{display:none}body{max-width:none;font-size:9pt}.wide{overflow:visible}svg{min-width:0}
h2{break-after:avoid}figure,tr{break-inside:avoid}}
";

/// A click on a legend's name toggles the parts with its colour; on a row with values it writes these into the
/// commands.
const SCRIPT: &str = "
document.querySelectorAll('svg .key').forEach(function (key) {
  var svg = key.closest('svg'), colour = key.querySelector('rect').getAttribute('fill');
  function toggle() {
    var off = key.classList.toggle('off');
    key.setAttribute('aria-pressed', String(off));
    svg.querySelectorAll('[fill=\"' + colour + '\"],[stroke=\"' + colour + '\"]').forEach(function (shape) {
      if (!shape.closest('.key')) shape.classList.toggle('hidden', off);
    });
  }
  key.setAttribute('role', 'button');
  key.setAttribute('tabindex', '0');
  key.addEventListener('click', toggle);
  key.addEventListener('keydown', function (event) { if (event.key === 'Enter') toggle(); });
});
document.querySelectorAll('tr[data-values]').forEach(function (row) {
  function choose() {
    document.querySelectorAll('tr.chosen').forEach(function (other) { other.classList.remove('chosen'); });
    row.classList.add('chosen');
    row.dataset.values.split(' ').forEach(function (value) {
      var part = value.split('=');
      document.querySelectorAll('var[title=' + part[0] + ']').forEach(function (word) { word.textContent = part[1]; });
    });
    document.querySelector('pre.command').scrollIntoView();
  }
  row.setAttribute('tabindex', '0');
  row.addEventListener('click', choose);
  row.addEventListener('keydown', function (event) { if (event.key === 'Enter') choose(); });
});
";

/// Least sections for a list of contents.
const CONTENTS: usize = 3;

/// A report that becomes one self-contained file.
#[derive(Clone, Debug)]
#[must_use]
pub struct Page {
    title: String,
    answer: Option<[String; 2]>,
    /// Part before the first section, then sections with headings.
    sections: Vec<Section>,
    provenance: Vec<Vec<String>>,
}

#[derive(Clone, Debug, Default)]
struct Section {
    heading: String,
    items: Vec<Item>,
}

#[derive(Clone, Debug)]
enum Item {
    Text(String),
    Table(String),
    Chart([String; 3]),
}

/// Links to figures or tables: `kind` and numbers.
fn links(kind: &str, numbers: &[usize]) -> String {
    let link = |number: &usize| format!("<a href=\"#{kind}-{number}\">{kind} {number}</a>");
    numbers.iter().map(link).collect::<Vec<_>>().join(", ")
}

impl Page {
    pub fn new(title: &str) -> Self {
        Self {
            title: title.to_owned(),
            answer: None,
            sections: vec![Section::default()],
            provenance: Vec::new(),
        }
    }

    /// Answer as the heading, with a line of settings below.
    pub fn answer(mut self, answer: &str, setting: &str) -> Self {
        self.answer = Some([answer, setting].map(str::to_owned));
        self
    }

    fn push(mut self, item: Item) -> Self {
        if let Some(section) = self.sections.last_mut() {
            section.items.push(item);
        }
        self
    }

    pub fn section(mut self, heading: &str) -> Self {
        self.sections.push(Section { heading: heading.to_owned(), items: Vec::new() });
        self
    }

    pub fn paragraph(self, text: &str) -> Self {
        self.push(Item::Text(format!("<p>{}</p>\n", escape(text))))
    }

    /// The first column and those in `texts` are text, others numbers.
    pub fn table(self, head: &[&str], texts: &[usize], rows: &[Vec<String>]) -> Self {
        self.push(Item::Table(cells_of(head, texts, rows, |_| Vec::new())))
    }

    /// A command and its options, with `names` for values of a row: a click on the row inserts them
    /// ([`Page::folded_table_of_values`]).
    pub fn command(self, command: &str, options: &str, names: &[&str]) -> Self {
        let mark =
            |line: String, name: &&str| line.replace(name, &format!("<var title=\"{name}\">{name}</var>"));
        let (command, options) = (escape(command), names.iter().fold(escape(options), mark));
        self.push(Item::Text(format!("<pre class=\"command\">{command} {options}</pre>\n")))
    }

    /// A long table, folded under a line that opens it; all columns are text.
    pub fn folded_table(self, summary: &str, head: &[&str], rows: &[Vec<String>]) -> Self {
        self.folded_table_of_values(summary, head, rows, |_| Vec::new())
    }

    /// [`Self::folded_table`] with each row's values for commands, by name: words without spaces.
    pub fn folded_table_of_values<'a>(
        self,
        summary: &str,
        head: &[&str],
        rows: &[Vec<String>],
        values: impl Fn(usize) -> Vec<(&'a str, String)>,
    ) -> Self {
        let (summary, cells) = (escape(summary), cells_of(head, &[], rows, values));
        self.push(Item::Text(format!(
            "<details class=\"text\"><summary>{summary}</summary>\n<div class=\"wide\"><table>\n{cells}</table></div>\n</details>\n"
        )))
    }

    /// A chart from its `draw`, with title and caption, which may be empty.
    pub fn chart(self, svg: &str, title: &str, caption: &str) -> Self {
        self.push(Item::Chart([svg, title, caption].map(str::to_owned)))
    }

    /// Origin of the report, by name: the last section.
    pub fn provenance(mut self, name: &str, text: &str) -> Self {
        self.provenance.push(vec![name.to_owned(), text.to_owned()]);
        self
    }

    /// The file. Tables and figures are numbered, and those in a section link to each other.
    pub fn finish(self) -> String {
        let title = escape(&self.title);
        let provenance = !self.provenance.is_empty();
        let headings = self.sections.iter().skip(1).map(|section| section.heading.as_str());
        let headings: Vec<&str> = headings.chain(provenance.then_some(PROVENANCE)).collect();
        let mut body = match &self.answer {
            None => format!("<h1 id=\"top\">{title}</h1>\n"),
            Some([answer, setting]) => {
                let [answer, setting] = [answer, setting].map(|text| escape(text));
                format!("<h1 id=\"top\">{answer}</h1>\n<p class=\"setting\">{setting}</p>\n")
            }
        };
        let (mut tables, mut figures) = (0, 0);
        for (number, section) in self.sections.iter().enumerate() {
            if number > 0 {
                heading(&mut body, number, &section.heading);
            }
            let count = |is: fn(&Item) -> bool| section.items.iter().filter(|item| is(item)).count();
            let own_tables: Vec<usize> =
                (tables + 1..=tables + count(|item| matches!(item, Item::Table(_)))).collect();
            let own_figures: Vec<usize> =
                (figures + 1..=figures + count(|item| matches!(item, Item::Chart(_)))).collect();
            let see = |what: String| if what.is_empty() { what } else { format!(", see {what}") };
            for item in &section.items {
                let _ = match item {
                    Item::Text(text) => write!(body, "{text}"),
                    Item::Table(cells) => {
                        tables += 1;
                        let see = see(links("figure", &own_figures));
                        write!(
                            body,
                            "<div class=\"wide\"><table id=\"table-{tables}\">\n<caption>table {tables}{see}</caption>\n\
                             {cells}</table></div>\n"
                        )
                    }
                    Item::Chart([svg, title, caption]) => {
                        figures += 1;
                        let see = see(links("table", &own_tables));
                        let title = if title.is_empty() {
                            title.clone()
                        } else {
                            format!("<b>{}.</b> ", escape(title))
                        };
                        let caption = escape(caption);
                        write!(
                            body,
                            "<figure id=\"figure-{figures}\">\n<figcaption>{title}{caption} <span class=\"number\">figure \
                             {figures}{see}</span></figcaption>\n<div class=\"wide\">{svg}</div>\n</figure>\n"
                        )
                    }
                };
            }
            if number == 0 && headings.len() >= CONTENTS {
                body.push_str("<nav><ul>\n");
                for (number, heading) in (1..).zip(&headings) {
                    let heading = escape(heading);
                    let _ = writeln!(body, "<li><a href=\"#section-{number}\">{heading}</a></li>");
                }
                body.push_str("</ul></nav>\n");
            }
        }
        if provenance {
            heading(&mut body, self.sections.len(), PROVENANCE);
            let rows = cells_of(&["what", "how"], &[], &self.provenance, |_| Vec::new());
            let _ = write!(body, "<div class=\"wide\"><table class=\"text\">\n{rows}</table></div>\n");
        }
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
             <meta name=\"viewport\" content=\"width=device-width\"/>\n<title>{title}</title>\n\
             <style>{STYLE}</style>\n</head>\n<body>\n{body}<script>{SCRIPT}</script>\n</body>\n</html>\n"
        )
    }
}

const PROVENANCE: &str = "How this page was made";

fn heading(body: &mut String, number: usize, heading: &str) {
    let heading = escape(heading);
    let back = "<a class=\"back\" href=\"#top\">\u{2191}</a>";
    let _ = writeln!(body, "<h2 id=\"section-{number}\">{heading} {back}</h2>");
}

fn cells_of<'a>(
    head: &[&str],
    texts: &[usize],
    rows: &[Vec<String>],
    values: impl Fn(usize) -> Vec<(&'a str, String)>,
) -> String {
    let cells = |tag: &str, cells: &mut dyn Iterator<Item = &str>| -> String {
        let class = |index: &usize| if texts.contains(index) { " class=\"t\"" } else { "" };
        let cells = cells.enumerate();
        cells.map(|(index, cell)| format!("<{tag}{}>{}</{tag}>", class(&index), escape(cell))).collect()
    };
    let mut text = format!("<tr>{}</tr>\n", cells("th", &mut head.iter().copied()));
    for (number, row) in rows.iter().enumerate() {
        let words: Vec<String> =
            values(number).iter().map(|(name, value)| format!("{name}={}", escape(value))).collect();
        let data =
            if words.is_empty() { String::new() } else { format!(" data-values=\"{}\"", words.join(" ")) };
        let _ = writeln!(text, "<tr{data}>{}</tr>", cells("td", &mut row.iter().map(String::as_str)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_well_formed_and_whole() {
        let rows = vec![vec!["a < b".to_owned(), "1".to_owned()]];
        let html = Page::new("R & D")
            .section("One")
            .paragraph("Text with \"quotes\".")
            .table(&["what", "n"], &[], &rows)
            .folded_table("a & b", &["c"], &[vec!["d > e".to_owned()]])
            .command("show --text ITEM", "--item ITEM --file \"ITEM\"", &["ITEM"])
            .folded_table_of_values("f", &["c"], &rows, |row| vec![("ITEM", format!("<{row}>"))])
            .section("Two")
            .chart(&crate::LineChart::new("t", "x", "y").draw().unwrap(), "Title", "Caption")
            .table(&["what", "n"], &[1], &rows)
            .provenance("command", "ndp --html <file>")
            .finish();
        let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
        let document = roxmltree::Document::parse_with_options(&html, options).unwrap();
        let text = |tag: &str| {
            document.descendants().find(|n| n.has_tag_name(tag)).unwrap().text().unwrap().to_owned()
        };
        assert_eq!((text("h1").as_str(), text("td").as_str()), ("R & D", "a < b"));
        assert_eq!(text("summary"), "a & b");
        assert_eq!(document.descendants().filter(|n| n.attribute("title") == Some("ITEM")).count(), 2);
        let chosen: Vec<&str> = document.descendants().filter_map(|n| n.attribute("data-values")).collect();
        assert_eq!(chosen, ["ITEM=<0>"]);
        assert!(!html.contains("http://") || html.matches("http://").count() == 1, "nothing from outside");
        assert!(!html.contains("<script src"));
        // Every link has a target on the page, and every section is in the contents.
        let ids: Vec<&str> = document.descendants().filter_map(|n| n.attribute("id")).collect();
        let links: Vec<&str> = document.descendants().filter_map(|n| n.attribute("href")).collect();
        assert!(links.iter().all(|link| ids.contains(&link.trim_start_matches('#'))), "{links:?} {ids:?}");
        for link in ["#section-1", "#section-2", "#section-3", "#figure-1", "#table-2"] {
            assert!(links.contains(&link), "{link} of {links:?}");
        }
        assert!(!links.contains(&"#table-1"), "the figure of another section");
    }
}
