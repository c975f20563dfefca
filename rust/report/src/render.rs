//! Renderers of a [`Report`]: JSON, CSV, page and schema. `text` is for terminals.

use crate::value::{
    Chart, ChartKind, Level, Part, Report, Table, Unit, at, counted, grouped, head, is_absent, with_unit,
    written,
};
use crate::{BarChart, Field, Fold, Folds, LineChart, Page, ReportError, Rows, Series};
use itertools::Itertools;
use serde_json::Value;

/// Records as CSV (RFC 4180), all of one length.
pub fn csv_of(records: impl IntoIterator<Item = Vec<String>>) -> Result<String, csv::Error> {
    let mut out = csv::Writer::from_writer(Vec::new());
    records.into_iter().try_for_each(|record| out.write_record(record))?;
    let text = out.into_inner().map_err(|error| error.into_error())?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

fn folded(page: Page, Folds { title, text, commands, names, head, folds }: &Folds) -> Page {
    let page = page.section(title).paragraph(text);
    let page = commands
        .iter()
        .fold(page, |page, (does, command, options)| page.paragraph(does).command(command, options, names));
    folds.iter().fold(page, |page, Fold { summary, rows }| {
        let cells: Vec<Vec<String>> = rows.iter().map(|(cells, _)| cells.clone()).collect();
        let values = |row: usize| names.iter().copied().zip(rows[row].1.iter().cloned()).collect();
        page.folded_table_of_values(summary, head, &cells, values)
    })
}

/// Rows of a table that a page shows unfolded.
const LONGEST: usize = 30;

impl Table {
    /// Columns for people, without those that name sections.
    pub(crate) fn shown(&self, by: &[&str]) -> impl Iterator<Item = &Field> {
        self.columns.iter().filter(move |column| !by.contains(&column.key))
    }

    /// Columns that name sections in text; the page has room for more.
    pub(crate) fn by_first(&self) -> &'static [&'static str] {
        &self.by[..self.by.len().min(1)]
    }

    pub(crate) fn heading(&self, label: &str) -> String {
        if label.is_empty() { self.title.to_owned() } else { format!("{label}: {}", self.title) }
    }
}

impl Report {
    pub(crate) fn rows(&self, key: &str) -> &[Value] {
        self.json.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    /// Figures of a group, or of the report if the key is empty.
    pub(crate) fn figure(&self, group: &str, key: &str) -> &Value {
        let (first, rest) = key.split_once('.').unwrap_or((key, ""));
        let (first, rest) = if group.is_empty() { (first, rest) } else { (group, key) };
        let value = self.json.get(first).unwrap_or(&Value::Null);
        if rest.is_empty() { value } else { at(value, rest) }
    }

    /// Fails with [`ReportError::Incomplete`]: a value without a number, or a key without a field.
    pub fn check(&self) -> Result<(), ReportError> {
        self.fault.as_ref().map_or(Ok(()), |fault| Err(self.incomplete(fault)))
    }

    /// One JSON object: `command`, `holds`, `verdict`, `reason`, `notes`, the figures, groups, tables and inputs, and
    /// `again`. Fails as [`Self::check`].
    pub fn json(&self) -> Result<String, ReportError> {
        let mut all = serde_json::Map::new();
        all.insert("command".to_owned(), self.command.into());
        all.insert("holds".to_owned(), self.holds.into());
        all.insert("verdict".to_owned(), self.verdict.clone().into());
        all.insert("reason".to_owned(), self.reason.clone().into());
        all.insert("notes".to_owned(), self.notes.clone().into());
        all.extend(self.json.clone());
        if let Some(again) = &self.again {
            all.insert("rerun".to_owned(), again.clone().into());
        }
        serde_json::to_string_pretty(&all).map_err(|error| self.incomplete(error))
    }

    /// Tables as CSV by key, without columns of objects; and `schema`: path, unit and meaning of all JSON. Text that a
    /// spreadsheet would take for a formula begins with `'`. Fails as [`Self::check`].
    pub fn csv(&self) -> Result<Vec<(&'static str, String)>, ReportError> {
        let text = |table: &Table| {
            let mut keys: Vec<String> = Vec::new();
            for column in table.columns.iter().filter(|column| column.unit != Unit::Data) {
                let parts =
                    if column.unit == Unit::Energy { &[".low_fj", ".fj", ".high_fj"][..] } else { &[""] };
                keys.extend(parts.iter().map(|part| format!("{}{part}", column.key)));
            }
            let cell = |row, key: &String| match at(row, key) {
                Value::Null => String::new(),
                Value::String(text) if text.starts_with(['=', '+', '-', '@']) => format!("'{text}"),
                Value::String(text) => text.clone(),
                value => value.to_string(),
            };
            let cells =
                self.rows(table.key).iter().map(|row| keys.iter().map(|key| cell(row, key)).collect());
            csv_of([keys.clone()].into_iter().chain(cells))
        };
        let mut all = Vec::new();
        for part in &self.parts {
            if let Part::Table(table) = part {
                all.push((table.key, text(table).map_err(|error| self.incomplete(error))?));
            }
        }
        let head = ["path", "unit", "meaning"].map(str::to_owned);
        let schema = csv_of([head].into_iter().chain(self.schema()).map(Vec::from));
        all.push(("schema", schema.map_err(|error| self.incomplete(error))?));
        Ok(all)
    }

    fn incomplete(&self, fault: impl std::fmt::Display) -> ReportError {
        ReportError::Incomplete { command: self.command, fault: fault.to_string() }
    }

    /// Every JSON path with unit and meaning.
    pub fn schema(&self) -> Vec<[String; 3]> {
        let mut all = Vec::new();
        let mut add = |path: String, unit: Unit, meaning: &str| {
            let path =
                path.replace('.', "/") + if unit == Unit::Energy { "/{low_fj,fj,high_fj}" } else { "" };
            all.push([path, unit.name().to_owned(), meaning.to_owned()]);
        };
        let mut text = |path: &str, meaning| add(path.to_owned(), Unit::Text, meaning);
        text("/command", "command");
        text("/holds", "whether all checks passed; null if there are none");
        text("/verdict", "answer, or outcome of the checks, as a sentence");
        text("/reason", "reason for the figures, or null");
        text("/notes/*", "assumption, refusal or warning that belongs to the result");
        let fields = |start: String, fields: &[Field], add: &mut dyn FnMut(String, Unit, &str)| {
            fields.iter().for_each(|of| add(format!("{start}/{}", of.key), of.unit, of.meaning));
        };
        fields(String::new(), &self.figures, &mut add);
        for part in &self.parts {
            match part {
                Part::Group(group) => fields(format!("/{}", group.key), &group.fields, &mut add),
                Part::Table(table) => fields(format!("/{}/*", table.key), &table.columns, &mut add),
                Part::Chart(_) | Part::Folds(_) => {}
            }
        }
        self.data.iter().for_each(|(key, meaning)| add(format!("/{key}"), Unit::Data, meaning));
        add("/rerun".to_owned(), Unit::Text, "command that gives this result again");
        all
    }

    /// The page: first lines, tables and charts, provenance. Fails for numbers that a chart cannot show.
    pub fn page(&self, provenance: &[(&str, String)]) -> Result<String, ReportError> {
        let title = format!("ndp {}: {}", self.command, self.setting);
        let title = title.trim_end_matches(": ");
        let outcome = match self.holds {
            None => "",
            Some(true) => "ok: ",
            Some(false) => "FAILED: ",
        };
        let mut page = Page::new(title).answer(&format!("{outcome}{}", self.verdict), title);
        let cells = |group: &str, fields: &[Field], levels: &[Level]| -> Vec<Vec<String>> {
            let shown = fields.iter().filter(|field| levels.contains(&field.level));
            shown
                .filter(|field| !is_absent(self.figure(group, field.key)))
                .map(|field| {
                    vec![field.label.to_owned(), with_unit(field.unit, self.figure(group, field.key))]
                })
                .collect()
        };
        let figures = cells("", &self.figures, &[Level::Head]);
        if !figures.is_empty() {
            page = page.table(&["", ""], &[], &figures);
        }
        page = self.reason.iter().fold(page, |page, reason| page.paragraph(reason));
        page = self.notes.iter().fold(page, |page, note| page.paragraph(note));
        let others = cells("", &self.figures, &[Level::Screen, Level::Verbose, Level::Page]);
        if !others.is_empty() {
            page = page.folded_table(
                &counted(others.len() as u64, "more figure"),
                &["figure", "value"],
                &others,
            );
        }
        let captioned = |page: Page, chart: &Chart, title: &str| -> Result<Page, ReportError> {
            Ok(page.chart(&self.drawn(chart)?, title, &chart.caption))
        };
        let all = [Level::Head, Level::Screen, Level::Verbose, Level::Page];
        for part in &self.parts {
            page = match part {
                Part::Group(group) => {
                    page.section(group.title).table(&["", ""], &[], &cells(group.key, &group.fields, &all))
                }
                // Long tables are for programs; charts show them. Empty ones are left out.
                Part::Table(table) if !self.is_on_page(table) => page,
                Part::Table(table) => {
                    let all = self.rows(table.key);
                    let has_values = |key| all.iter().any(|row| !is_absent(at(row, key)));
                    let shown = table.shown(table.by).filter(|column| column.level < Level::Json);
                    let columns: Vec<&Field> = shown.filter(|column| has_values(column.key)).collect();
                    let heads: Vec<String> = columns.iter().map(|column| head(column)).collect();
                    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
                    let texts = (0..columns.len()).filter(|index| columns[*index].unit == Unit::Text);
                    let texts: Vec<usize> = texts.collect();
                    let row = |row: &&Value| {
                        columns
                            .iter()
                            .map(|column| written(column.unit, at(row, column.key)))
                            .collect::<Vec<_>>()
                    };
                    for (label, rows) in self.sections(table.key, table.by) {
                        page = page.section(&table.heading(&label));
                        for chart in self.charts_of(table) {
                            page = match table.by.is_empty() {
                                true => captioned(page, chart, &chart.title)?,
                                false if chart.title == label => captioned(page, chart, "")?,
                                false => page,
                            };
                        }
                        let rows: Vec<Vec<String>> = rows.iter().map(row).collect();
                        page = match rows.len() {
                            0..=LONGEST => page.table(&heads, &texts, &rows),
                            count => {
                                page.folded_table(&format!("{} rows", grouped(count as u64)), &heads, &rows)
                            }
                        };
                    }
                    page
                }
                Part::Chart(chart) if self.is_beside_table(chart) || !self.has_marks(chart) => page,
                Part::Chart(chart) => captioned(page.section(&chart.title), chart, "")?,
                Part::Folds(folds) => folded(page, folds),
            };
        }
        page = self.again.iter().fold(page, |page, again| page.provenance("command", again));
        Ok(provenance.iter().fold(page, |page, (name, text)| page.provenance(name, text)).finish())
    }

    fn is_on_page(&self, table: &Table) -> bool {
        table.level < Level::Json && !self.rows(table.key).is_empty()
    }

    fn has_marks(&self, chart: &Chart) -> bool {
        matches!(chart.kind, ChartKind::Drawn(_)) || !self.rows(chart.table).is_empty()
    }

    /// A table's rows, in sections with equal values of these columns.
    pub(crate) fn sections(&self, table: &str, by: &[&str]) -> Vec<(String, Vec<&Value>)> {
        let mut all: Vec<(String, Vec<&Value>)> = Vec::new();
        for row in self.rows(table) {
            let label = |key: &&str| written(Unit::Text, at(row, key));
            let label = by.iter().map(label).join(", ");
            match all.iter_mut().find(|(known, _)| *known == label) {
                Some((_, rows)) => rows.push(row),
                None => all.push((label, vec![row])),
            }
        }
        all
    }

    fn charts_of(&self, table: &Table) -> impl Iterator<Item = &Chart> {
        let key = table.key;
        self.parts.iter().filter_map(move |part| match part {
            Part::Chart(chart) if chart.table == key && self.has_marks(chart) => Some(chart),
            _ => None,
        })
    }

    /// Whether a chart is in its table's section.
    fn is_beside_table(&self, chart: &Chart) -> bool {
        let is_of = |table: &Table| table.key == chart.table && self.is_on_page(table);
        self.parts.iter().any(|part| matches!(part, Part::Table(table) if is_of(table)))
    }

    /// A chart as SVG. Fails with [`ReportError::NotFinite`].
    pub fn drawn(&self, chart: &Chart) -> Result<String, ReportError> {
        let rows = self.rows_of(chart);
        let number = |row: &Value, key: &str| at(row, key).as_f64().unwrap_or(0.0);
        let column = |key: &str| self.column(chart.table, key);
        let text = |row: &Value, keys: &str| self.label(chart.table, row, keys);
        let names = |keys: &str| rows.iter().map(|row| text(row, keys)).unique().collect_vec();
        match &chart.kind {
            ChartKind::Drawn(svg) => Ok(svg.clone()),
            ChartKind::Rows { label, value } => {
                let unit = column(value).map(|column| column.unit);
                let shown =
                    |row: &Value| unit.map_or_else(String::new, |unit| with_unit(unit, at(row, value)));
                rows.iter()
                    .fold(Rows::new(&chart.title), |chart, row| {
                        chart.row(&text(row, label), number(row, value), &shown(row), 0)
                    })
                    .draw()
            }
            ChartKind::Stacks { label, part, value, axis } => {
                let (wholes, parts) = (names(label), names(part));
                let height = |whole: &str, name: &str| {
                    let is = |row: &&&Value| text(row, label) == whole && text(row, part) == name;
                    rows.iter().filter(is).map(|row| number(row, value.0) * value.1).sum::<f64>()
                };
                let bars = BarChart::new(&chart.title, axis, wholes.iter().cloned()).stacked();
                parts
                    .iter()
                    .fold(bars, |bars, name| bars.bars(name, wholes.iter().map(|whole| height(whole, name))))
                    .draw()
            }
            ChartKind::Columns { label, parts, factor, axis } => {
                let bars =
                    BarChart::new(&chart.title, axis, rows.iter().map(|row| text(row, label))).stacked();
                let name = |key| column(key).map_or(key, |column| column.label);
                let heights = |key| rows.iter().map(move |row| number(row, key) * factor);
                parts.iter().fold(bars, |bars, key| bars.bars(name(key), heights(key))).draw()
            }
            ChartKind::Lines { x, y, series: (key, before, after), axes: [across, up], reference } => {
                let place = |row: &Value| {
                    let place = number(row, x.0);
                    if x.1 { (place > 0.0).then(|| place.log10()) } else { Some(place) }
                };
                let mut lines = LineChart::new(&chart.title, across, up).from_zero();
                for name in names(key) {
                    let of = rows.iter().filter(|row| text(row, key) == name);
                    let points = of.filter_map(|row| Some((place(row)?, number(row, y.0) * y.1))).collect();
                    lines = lines.series(Series { name: format!("{before}{name}{after}"), points });
                }
                reference.iter().fold(lines, |lines, (label, height)| lines.reference(label, *height)).draw()
            }
        }
    }

    /// Name of a row: columns by comma-separated keys. After the first, columns equal in all rows are left out.
    fn label(&self, table: &str, row: &Value, keys: &str) -> String {
        let differ =
            |key: &str| self.rows(table).windows(2).any(|pair| at(&pair[0], key) != at(&pair[1], key));
        let shown = |key: &str| {
            let column = self.column(table, key);
            let text = column.map_or_else(String::new, |column| written(column.unit, at(row, key)));
            let number = column.is_some_and(|column| column.unit != Unit::Text);
            if number && keys.contains(',') { format!("{key} {text}") } else { text }
        };
        let keys = keys.split(',').enumerate().filter(|(index, key)| *index == 0 || differ(key));
        keys.map(|(_, key)| shown(key)).join(", ")
    }

    /// Rows of a chart: the rows of its section, if the table has sections.
    fn rows_of(&self, chart: &Chart) -> Vec<&Value> {
        let table = self.parts.iter().find_map(|part| match part {
            Part::Table(table) if table.key == chart.table => Some(table),
            _ => None,
        });
        let sections = table.into_iter().flat_map(|table| {
            let is_shown = |label: &str| table.by.is_empty() || label == chart.title;
            self.sections(table.key, table.by).into_iter().filter(move |(label, _)| is_shown(label))
        });
        sections.flat_map(|(_, rows)| rows).collect()
    }

    fn column(&self, table: &str, key: &str) -> Option<&Field> {
        self.parts.iter().find_map(|part| match part {
            Part::Table(one) if one.key == table => one.columns.iter().find(|column| column.key == key),
            _ => None,
        })
    }
}
