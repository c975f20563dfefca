//! A [`Report`] as text: verdict, figures and reason first, then tables no wider than the terminal.

use crate::Field;
use crate::value::{Level, Part, Report, Table, Unit, at, counted, head, is_absent, with_unit, written};
use ndp_files::visible;
use serde_json::Value;
use std::fmt::Write;
use std::ops::Range;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terminal {
    pub width: usize,
    /// Shows bars and styles.
    pub rich: bool,
    /// Shows more than the first screen's figures and tables.
    pub verbose: bool,
}

/// Lines for a terminal without control characters, and their styles.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Screen {
    pub text: String,
    /// Byte ranges in order, and parameters of the control sequence of their style (ECMA-48, SGR).
    pub styles: Vec<(Range<usize>, &'static str)>,
}

const GREEN: &str = "1;32";
const RED: &str = "1;31";
const BOLD: &str = "1";

/// Default and most columns.
pub const WIDTH: usize = 100;
/// Least columns that a line is broken for.
const LEAST: usize = 40;
/// Columns of the longest bar, and the fewest worth drawing.
const BAR: (usize, usize) = (40, 8);
const GAP: usize = 2;
/// Least columns of a broken text.
const WRAPPED: usize = 16;

impl Report {
    pub fn text(&self, terminal: Terminal) -> Screen {
        let width = terminal.width.clamp(LEAST, WIDTH);
        let mut text = String::new();
        let (word, style) = match self.holds {
            None => ("", BOLD),
            Some(true) => ("ok: ", GREEN),
            Some(false) => ("FAILED: ", RED),
        };
        let mut styles = vec![(0..word.len(), style)];
        paragraph(&mut text, word, word.len(), &self.verdict, width);
        self.figures_of(&mut text, "", &self.figures, |level| level == Level::Head, width);
        if let Some(reason) = &self.reason {
            paragraph(&mut text, "why: ", 5, reason, width);
        }
        if !self.setting.is_empty() {
            paragraph(&mut text, "ran: ", 5, &self.setting, width);
        }
        for note in &self.notes {
            paragraph(&mut text, "note: ", 6, note, width);
        }
        let most = if terminal.verbose { Level::Verbose } else { Level::Screen };
        if self.figures.iter().any(|field| field.level > Level::Head && field.level <= most) {
            text.push('\n');
            self.figures_of(
                &mut text,
                "",
                &self.figures,
                |level| level > Level::Head && level <= most,
                width,
            );
        }
        for part in &self.parts {
            match part {
                Part::Group(group) if group.level <= most => {
                    title(&mut text, &mut styles, group.title);
                    self.figures_of(&mut text, group.key, &group.fields, |level| level <= most, width);
                }
                Part::Table(table) if table.level <= most && !self.rows(table.key).is_empty() => {
                    for (label, rows) in self.sections(table.key, table.by_first()) {
                        title(&mut text, &mut styles, &table.heading(&label));
                        table_of(&mut text, (table, &rows), most, width, terminal.rich);
                    }
                }
                _ => {}
            }
        }
        if let Some(again) = self.again.as_ref().filter(|_| terminal.verbose || self.failed()) {
            let _ = write!(text, "\nrerun: {again}\n");
        }
        Screen { text, styles }
    }

    /// The failure and the command to rerun it, for standard error.
    pub fn failure(&self) -> String {
        let notes = self.notes.iter().map(|note| format!("{note}\n"));
        let again = self.again.iter().map(|again| format!("rerun: {again}"));
        format!("FAILED: {}\n", self.verdict) + &notes.chain(again).collect::<String>()
    }

    fn figures_of(
        &self,
        text: &mut String,
        group: &str,
        fields: &[Field],
        is: impl Fn(Level) -> bool,
        width: usize,
    ) {
        let fields: Vec<&Field> = fields.iter().filter(|field| is(field.level)).collect();
        let labels = fields.iter().map(|field| field.label.chars().count()).max().unwrap_or(0);
        for field in fields {
            let value = self.figure(group, field.key);
            if !is_absent(value) {
                let label = format!("{:<labels$}  ", field.label);
                paragraph(text, &label, labels + 2, &with_unit(field.unit, value), width);
            }
        }
    }
}

fn table_of(text: &mut String, (table, rows): (&Table, &[&Value]), most: Level, width: usize, bars: bool) {
    // Columns without values are left out.
    let has_values = |column: &&Field| rows.iter().any(|row| !is_absent(at(row, column.key)));
    let columns = table.shown(table.by_first()).filter(|column| column.level <= most).filter(has_values);
    let mut rest: Vec<Column> = columns.map(|column| Column::new(column, rows)).collect();
    let natural: usize = rest.iter().map(|column| column.width + GAP).sum();
    if natural > width + GAP {
        rest.iter_mut().for_each(|column| column.width = column.narrow);
    }
    let shown = if most < Level::Verbose { rows.len().min(ROWS) } else { rows.len() };
    let longest = |key: &str| rows.iter().filter_map(|row| at(row, key).as_f64()).fold(0.0, f64::max);
    let bar =
        |row: &Value, room: usize| match table.bars.filter(|key| bars && room >= BAR.1 && longest(key) > 0.0)
        {
            None => String::new(),
            Some(key) => {
                let share = at(row, key).as_f64().unwrap_or(0.0) / longest(key);
                format!("  {}", "\u{2588}".repeat((share * room as f64).ceil() as usize))
            }
        };
    loop {
        let (mut fits, mut room) = (0, width);
        for column in &mut rest {
            let gap = if fits == 0 { 0 } else { GAP };
            if column.width + gap > room && column.is_text() && room >= gap + WRAPPED {
                column.width = room - gap;
            }
            if column.width + gap > room && fits > 0 {
                break;
            }
            (fits, room) = (fits + 1, room.saturating_sub(column.width + gap));
        }
        let later = rest.split_off(fits);
        write_line(text, &rest, |column| column.head.clone(), "");
        let room = if later.is_empty() { room.saturating_sub(GAP).min(BAR.0) } else { 0 };
        for (index, row) in rows.iter().take(shown).enumerate() {
            write_line(text, &rest, |column| column.cells[index].clone(), &bar(row, room));
        }
        if most < Level::Verbose {
            let columns = later.iter().map(|column| column.head.clone());
            let more = (shown < rows.len()).then(|| counted((rows.len() - shown) as u64, "more row"));
            let hidden: Vec<String> = more.into_iter().chain(columns).collect();
            if !hidden.is_empty() {
                paragraph(text, "(--verbose shows ", 17, &format!("{})", hidden.join(", ")), width);
            }
            return;
        }
        if later.is_empty() {
            return;
        }
        // The others, with the names repeated: the first column and the texts after it.
        text.push('\n');
        let names = 1 + rest.iter().skip(1).take_while(|column| column.is_text()).count();
        let room = |names: usize| rest[..names].iter().map(|column| column.width + GAP).sum::<usize>();
        let names = (1..=names).rev().find(|names| room(*names) <= width / 2).unwrap_or(1);
        rest.truncate(names.min(fits));
        rest.extend(later);
    }
}

/// Rows of a table without `--verbose`: most of a screen.
const ROWS: usize = 40;

struct Column {
    unit: Unit,
    head: String,
    cells: Vec<String>,
    /// Width of the widest cell, or less if its text is broken.
    width: usize,
    /// Width with one word of the head per line.
    narrow: usize,
}

impl Column {
    fn new(field: &Field, rows: &[&Value]) -> Self {
        let cell = |row: &&Value| visible(&written(field.unit, at(row, field.key))).into_owned();
        let cells: Vec<String> = rows.iter().map(cell).collect();
        let head = head(field);
        let width = cells.iter().chain([&head]).map(|cell| cell.chars().count()).max().unwrap_or(0);
        let lengths =
            cells.iter().map(String::as_str).chain(head.split(' ')).map(|cell| cell.chars().count());
        let narrow = lengths.max().unwrap_or(0);
        Self { unit: field.unit, head, cells, width, narrow }
    }

    fn is_text(&self) -> bool {
        matches!(self.unit, Unit::Text)
    }
}

/// Cells of a row side by side; wide texts take several lines.
fn write_line(text: &mut String, columns: &[Column], cell: impl Fn(&Column) -> String, bar: &str) {
    let cells: Vec<Vec<String>> = columns.iter().map(|column| broken(&cell(column), column.width)).collect();
    for number in 0..cells.iter().map(Vec::len).max().unwrap_or(0) {
        let mut line = String::new();
        for (index, (column, cells)) in columns.iter().zip(&cells).enumerate() {
            let gap = if index == 0 { 0 } else { GAP };
            let (cell, wide) = (cells.get(number).map_or("", String::as_str), column.width);
            let _ = match column.is_text() {
                true => write!(line, "{:gap$}{cell:<wide$}", ""),
                false => write!(line, "{:gap$}{cell:>wide$}", ""),
            };
        }
        let bar = if number == 0 { bar } else { "" };
        let _ = writeln!(text, "{}", format!("{line}{bar}").trim_end());
    }
}

/// Breaks a text into lines of `width`, at least one.
fn broken(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    if text.chars().count() <= width {
        return vec![text.to_owned()];
    }
    for word in text.split_whitespace() {
        let used = lines.last().map_or(0, |line| line.chars().count());
        match lines.last_mut() {
            Some(line) if used > 0 && used + 1 + word.chars().count() <= width => {
                *line += &format!(" {word}")
            }
            Some(line) if used == 0 => *line += word,
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

fn title(text: &mut String, styles: &mut Vec<(Range<usize>, &'static str)>, title: &str) {
    text.push('\n');
    styles.push((text.len()..text.len() + title.len(), BOLD));
    *text += title;
    text.push('\n');
}

/// Words within the width, indented to the end of the label.
fn paragraph(text: &mut String, label: &str, indent: usize, words: &str, width: usize) {
    for (number, line) in broken(&visible(words), width.saturating_sub(indent)).iter().enumerate() {
        let _ = match number {
            0 => writeln!(text, "{}", format!("{label}{line}").trim_end()),
            _ => writeln!(text, "{:indent$}{line}", ""),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Chart, ChartKind, field};
    use serde::Serialize;
    use serde_json::Value;

    #[derive(Serialize)]
    struct Figures {
        cycles: u64,
        efficiency: f64,
        late: Option<u32>,
    }

    #[derive(Serialize)]
    struct Row {
        name: &'static str,
        share: f64,
        calls: u64,
    }

    const FIGURES: [Field; 3] = [
        field("cycles", "cycles", Unit::Cycles, "core cycles of the product").at(Level::Head),
        field("efficiency", "of the roofline", Unit::Share, "roofline over cycles"),
        field("late", "late", Unit::Count, "requests that were late"),
    ];
    const ROWS: [Field; 3] = [
        field("name", "phase", Unit::Text, "phase of a layer"),
        field("share", "share", Unit::Share, "part of all cycles"),
        field("calls", "calls", Unit::Count, "times that it ran"),
    ];

    const SCHEMA: &str = "path,unit,meaning\n\
        /command,text,command\n\
        /holds,text,whether all checks passed; null if there are none\n\
        /verdict,text,\"answer, or outcome of the checks, as a sentence\"\n\
        /reason,text,\"reason for the figures, or null\"\n\
        /notes/*,text,\"assumption, refusal or warning that belongs to the result\"\n\
        /cycles,cycles,core cycles of the product\n\
        /efficiency,0 to 1,roofline over cycles\n\
        /late,number,requests that were late\n\
        /phases/*/name,text,phase of a layer\n\
        /phases/*/share,0 to 1,part of all cycles\n\
        /phases/*/calls,number,times that it ran\n\
        /rerun,text,command that gives this result again\n";

    fn report() -> Report {
        let rows = [
            Row { name: "scores", share: 0.75, calls: 1200 },
            Row { name: "=softmax, all", share: 0.25, calls: 3 },
        ];
        Report::checked("test", true, "all 64 results equal exact arithmetic")
            .figures((&FIGURES, &Figures { cycles: 1603, efficiency: 0.878, late: None }))
            .reason("the rows wait for weights in 3.7 % of the cycles, and for nothing else that could be named in a line of this width")
            .setting("tiny, batch 1")
            .table_at(Level::Screen, Some("share"), ("phases", "Where the time goes"), (&ROWS, &rows))
            .chart(Chart {
                table: "phases",
                title: "Phases".to_owned(),
                caption: "Most of it is scores.".to_owned(),
                kind: ChartKind::Rows { label: "name", value: "share" },
            })
            .again("ndp test --seed 1")
    }

    #[test]
    fn the_answer_comes_first_and_no_line_is_too_wide() {
        let text = report().text(Terminal { width: 80, rich: false, verbose: false });
        insta::assert_snapshot!(text.text);
        for width in [40, 60, 100] {
            let text = report().text(Terminal { width, rich: false, verbose: true });
            assert!(
                text.text.lines().all(|line| line.chars().count() <= width.max(LEAST)),
                "{width}\n{}",
                text.text
            );
        }
        let coloured = report().text(Terminal { width: 80, rich: true, verbose: false });
        assert_eq!(coloured.styles[0], (0..4, GREEN));
        assert!(coloured.text.contains('\u{2588}') && !coloured.text.contains('\u{1b}'));
    }

    #[test]
    fn names_of_others_stay_in_their_cells() {
        let rows = [Row { name: "a\nok: b\u{1b}[2J", share: 0.5, calls: 1 }];
        let report = Report::answer("test", "c\nok: d").note("e\nf").table("rows", "Rows", (&ROWS, &rows));
        let text = report.text(Terminal { width: 80, rich: false, verbose: false }).text;
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[..2], [r"c\nok: d", r"note: e\nf"]);
        assert_eq!(lines[5], r"a\nok: b\u001b[2J     50.0      1");
        assert_eq!(serde_json::from_str::<Value>(&report.json().unwrap()).unwrap()["verdict"], "c\nok: d");
    }

    #[test]
    fn all_renderers_have_the_same_numbers() {
        let report = report();
        let json: Value = serde_json::from_str(&report.json().unwrap()).unwrap();
        assert_eq!((&json["cycles"], &json["phases"][1]["share"]), (&1603.into(), &0.25.into()));
        assert_eq!(
            report.csv().unwrap(),
            [
                ("phases", "name,share,calls\nscores,0.75,1200\n\"'=softmax, all\",0.25,3\n"),
                ("schema", SCHEMA)
            ]
            .map(|(table, text)| (table, text.to_owned()))
        );
        let page = report.page(&[("version", "1".to_owned())]).unwrap();
        assert!(page.contains("<td>1,200</td>") && page.contains("Most of it is scores."));
    }

    #[test]
    fn sections_have_their_rows_and_the_charts_that_name_them() {
        let rows = [("a", 1.0), ("b", 20_000.0)].map(|(name, share)| Row { name, share, calls: 0 });
        let columns = [ROWS[0], field("share", "size", Unit::Digits, "size"), ROWS[2]];
        let kind = ChartKind::Columns { label: "name", parts: vec!["share"], factor: 1.0, axis: "x" };
        let report = Report::answer("test", "")
            .table("rows", "sizes", (&columns, &rows))
            .by(&["name"])
            .chart(Chart { table: "rows", title: "b".to_owned(), caption: "Drawn.".to_owned(), kind });
        let text = report.text(Terminal { width: 80, rich: false, verbose: false }).text;
        assert_eq!(
            text,
            "\n\na: sizes\nsize  calls\n   1      0\n\nb: sizes\n  size  calls\n20,000      0\n"
        );
        let page = report.page(&[]).unwrap();
        let second = page.split_once("b: sizes").unwrap().1;
        assert!(
            second.contains("Drawn.")
                && !second.contains("<td>1.000</td>")
                && page.matches("<svg").count() == 1
        );
    }

    #[test]
    fn a_key_without_a_field_is_an_error() {
        let report = Report::answer("test", "")
            .figures((&FIGURES[..1], &Figures { cycles: 1, efficiency: 1.0, late: None }));
        assert_eq!(
            report.check().unwrap_err().to_string(),
            "the report of test: '': nothing says what 'efficiency' is"
        );
    }
}
