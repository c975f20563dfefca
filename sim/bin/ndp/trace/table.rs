//! Text in columns.

/// A table whose columns are as wide as they have to be.
pub struct Table<const N: usize> {
    rows: Vec<[String; N]>,
}

impl<const N: usize> Table<N> {
    /// With these headings.
    pub fn new(headings: [&str; N]) -> Self {
        Self { rows: vec![headings.map(str::to_owned)] }
    }

    /// Adds a row.
    pub fn row(&mut self, row: [String; N]) {
        self.rows.push(row);
    }

    /// The first column to the left, the others to the right.
    pub fn text(&self) -> String {
        let width =
            |column: usize| self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: [usize; N] = std::array::from_fn(width);
        let mut text = String::new();
        for row in &self.rows {
            for (column, (cell, width)) in row.iter().zip(widths).enumerate() {
                if column == 0 {
                    text += &format!("{cell:<width$}");
                } else {
                    text += &format!("  {cell:>width$}");
                }
            }
            text.truncate(text.trim_end().len());
            text.push('\n');
        }
        text
    }
}

/// A share in percent, or `-`.
pub fn percent(value: Option<f64>) -> String {
    value.map_or("-".into(), |value| format!("{:.1} %", 100.0 * value))
}
