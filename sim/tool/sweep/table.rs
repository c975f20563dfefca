//! The results as lines of JSON, as CSV and as Parquet: a row for each point, in order.

use super::folder::{Folder, Outcome};
use crate::prelude::*;
use anyhow::bail;
use ndp_files::printable;
use ndp_report::csv_of;
use parquet::basic::{Compression, ConvertedType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A column: its name, and a cell for each row.
type Column = (String, Vec<Option<Value>>);

pub fn write(folder: &Folder, outcomes: &[Outcome]) -> Result<()> {
    let create = |name: &str| OutputFile::create(&folder.file(name));
    let lines: Result<Vec<String>, _> = outcomes.iter().map(serde_json::to_string).collect();
    let lines = lines?;
    create("results.jsonl")?.finish(|out| lines.iter().try_for_each(|line| writeln!(out, "{line}")))?;
    let columns = columns(outcomes);
    let csv = csv(&columns, outcomes.len())?;
    create("results.csv")?.finish(|out| out.write_all(csv.as_bytes()))?;
    let parquet = parquet_of(&columns).context("cannot write results.parquet")?;
    create("results.parquet")?.finish(|out| out.write_all(&parquet))?;
    Ok(())
}

fn columns(outcomes: &[Outcome]) -> Vec<Column> {
    let cells = |cell: &dyn Fn(&Outcome) -> Option<Value>| outcomes.iter().map(cell).collect();
    let text = |text: &str| Some(Value::String(text.to_owned()));
    let mut columns: Vec<Column> = vec![
        ("key".to_owned(), cells(&|outcome| text(&outcome.key))),
        ("command".to_owned(), cells(&|outcome| text(&outcome.command))),
    ];
    for part in
        [|o: &Outcome| o.keys.clone(), |o: &Outcome| o.options.clone(), |o: &Outcome| o.metrics.clone()]
    {
        let names: BTreeSet<String> = outcomes.iter().flat_map(|outcome| part(outcome).into_keys()).collect();
        columns.extend(names.into_iter().map(|name| {
            let cells = cells(&|outcome| part(outcome).get(&name).cloned());
            (name, cells)
        }));
    }
    columns.push(("refused".to_owned(), cells(&|outcome| outcome.refused.clone().map(Value::String))));
    columns
}

pub fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A text that a spreadsheet would take for a formula is prefixed with an apostrophe. No text has control characters.
fn cell(value: &Value) -> String {
    let text = plain(value);
    let formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']) && text.parse::<f64>().is_err();
    let shown = printable(&text);
    if value.is_string() && formula { format!("'{shown}") } else { shown.into_owned() }
}

fn csv(columns: &[Column], rows: usize) -> Result<String> {
    let head = columns.iter().map(|(name, _)| cell(&Value::String(name.clone()))).collect();
    let row = |row: usize| {
        columns.iter().map(|(_, cells)| cells[row].as_ref().map(cell).unwrap_or_default()).collect()
    };
    Ok(csv_of([head].into_iter().chain((0..rows).map(row)))?)
}

/// Integers become INT64, other numbers DOUBLE, everything else text. Missing values are null.
fn parquet_of(columns: &[Column]) -> Result<Vec<u8>> {
    let kind = |cells: &[Option<Value>]| {
        let all = |is: fn(&Value) -> bool| cells.iter().flatten().all(is);
        match () {
            () if all(Value::is_i64) => Physical::INT64,
            () if all(Value::is_number) => Physical::DOUBLE,
            () => Physical::BYTE_ARRAY,
        }
    };
    let kinds: Vec<Physical> = columns.iter().map(|(_, cells)| kind(cells)).collect();
    let fields: Result<Vec<_>, _> = columns
        .iter()
        .zip(&kinds)
        .map(|((name, _), kind)| {
            let field = Type::primitive_type_builder(name, *kind).with_repetition(Repetition::OPTIONAL);
            let text = *kind == Physical::BYTE_ARRAY;
            let field = if text { field.with_converted_type(ConvertedType::UTF8) } else { field };
            field.build().map(Arc::new)
        })
        .collect();
    let schema = Arc::new(Type::group_type_builder("results").with_fields(fields?).build()?);
    let properties = WriterProperties::builder().set_compression(Compression::UNCOMPRESSED).build();
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties))?;
    let mut group = writer.next_row_group()?;
    for ((name, cells), kind) in columns.iter().zip(kinds) {
        let Some(mut column) = group.next_column()? else { bail!("column `{name}` has no place") };
        let levels: Vec<i16> = cells.iter().map(|cell| i16::from(cell.is_some())).collect();
        let values = cells.iter().flatten();
        match kind {
            Physical::INT64 => {
                let values: Vec<i64> = values.filter_map(Value::as_i64).collect();
                column.typed::<Int64Type>().write_batch(&values, Some(&levels), None)?;
            }
            Physical::DOUBLE => {
                let values: Vec<f64> = values.filter_map(Value::as_f64).collect();
                column.typed::<DoubleType>().write_batch(&values, Some(&levels), None)?;
            }
            _ => {
                let values: Vec<ByteArray> = values.map(|value| plain(value).as_str().into()).collect();
                column.typed::<ByteArrayType>().write_batch(&values, Some(&levels), None)?;
            }
        }
        column.close()?;
    }
    group.close()?;
    Ok(writer.into_inner()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use serde_json::json;

    #[test]
    fn no_cell_is_a_formula_or_moves_the_cursor() {
        for (value, shown) in [
            (json!("=HYPERLINK(\"x\")"), "'=HYPERLINK(\"x\")"),
            (json!("@SUM(A1)"), "'@SUM(A1)"),
            (json!("\t=1"), "'\t=1"),
            (json!("+x"), "'+x"),
            (json!("-x"), "'-x"),
            (json!("-1.5"), "-1.5"),
            (json!(-1.5), "-1.5"),
            (json!("a=b"), "a=b"),
            (json!("a\u{1b}[2J"), "a\\u001b[2J"),
        ] {
            assert_eq!(cell(&value), shown);
        }
    }

    #[test]
    fn csv_and_parquet_have_every_value_of_every_row() -> Result<()> {
        let outcome = |key: &str, keys: Value, metrics: Value, refused: Option<&str>| -> Result<Outcome> {
            Ok(Outcome {
                key: key.to_owned(),
                command: "a, \"b\"".to_owned(),
                keys: serde_json::from_value(keys)?,
                options: serde_json::from_value(json!({"batch": 4}))?,
                metrics: serde_json::from_value(metrics)?,
                refused: refused.map(str::to_owned),
            })
        };
        let outcomes = [
            outcome("k0", json!({"gemv.lanes": 8}), json!({"cycles": 12, "rate": 0.5}), None)?,
            outcome("k1", json!({"gemv.lanes": 9}), json!({}), Some("no"))?,
            outcome("k2", json!({}), json!({"cycles": 7, "rate": 2}), None)?,
        ];
        let columns = columns(&outcomes);
        let csv = csv(&columns, outcomes.len())?;
        assert_eq!(
            csv,
            "key,command,gemv.lanes,batch,cycles,rate,refused\n\
             k0,\"a, \"\"b\"\"\",8,4,12,0.5,\nk1,\"a, \"\"b\"\"\",9,4,,,no\nk2,\"a, \"\"b\"\"\",,4,7,2,\n"
        );
        let parquet = parquet_of(&columns)?;
        let reader = SerializedFileReader::new(bytes::Bytes::from(parquet))?;
        let rows: Vec<String> =
            reader.get_row_iter(None)?.map(|row| Ok(row?.to_string())).collect::<Result<_>>()?;
        let command = r#"command: "a, "b"""#;
        assert_eq!(
            rows,
            [
                format!(
                    r#"{{key: "k0", {command}, gemv.lanes: 8, batch: 4, cycles: 12, rate: 0.5, refused: null}}"#
                ),
                format!(
                    r#"{{key: "k1", {command}, gemv.lanes: 9, batch: 4, cycles: null, rate: null, refused: "no"}}"#
                ),
                format!(
                    r#"{{key: "k2", {command}, gemv.lanes: null, batch: 4, cycles: 7, rate: 2.0, refused: null}}"#
                ),
            ]
        );
        Ok(())
    }
}
