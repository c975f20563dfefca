//! Traces of requests, in LLMServingSim's formats.
//!
//! JSON by lines with `input_toks`, `output_toks` and `arrival_time_ns` (LLMServingSim's
//! `docs/docs/workloads/jsonl-format.md`), or the older tab-separated columns of these names (`dataset/*.tsv` of its
//! first version). Requests may be unordered. Keys without effect on length or time are ignored, but `input_tok_ids`
//! and `output_tok_ids` have to agree. Sessions (`sub_requests`), whose requests wait for each other, are refused.

use ndp_files::{Result, bail, refusal};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Prompt and output.
pub const MOST_TOKENS: u32 = 1 << 20;
/// 31 years.
pub const LATEST_NS: u64 = 1_000_000_000_000_000_000;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Request {
    pub arrival_ns: u64,
    pub input: u32,
    pub output: u32,
}

const COLUMNS: [&str; 3] = ["input_toks", "output_toks", "arrival_time_ns"];

const NO_COUNT: &str = "is not a whole number of 0 or more, in digits without a point or an exponent";

impl Request {
    fn checked(line: usize, [input, output, arrival_ns]: [u64; 3]) -> Result<Self> {
        let most = u64::from(MOST_TOKENS);
        let error = |what: &str, value: u64, min: u64, max: u64| {
            let what = format!("{what} = {value} must be in {min}..={max}");
            Err(refusal!("line {line}: {what}"))
        };
        for (what, value) in COLUMNS.into_iter().zip([input, output]) {
            if !(1..=most).contains(&value) {
                return error(what, value, 1, most);
            }
        }
        if input + output > most {
            return error("input_toks + output_toks", input + output, 2, most);
        }
        if arrival_ns > LATEST_NS {
            return error(COLUMNS[2], arrival_ns, 0, LATEST_NS);
        }
        Ok(Self { arrival_ns, input: input as u32, output: output as u32 })
    }

    /// Tokens in K and V when the last token is generated, which itself is not stored.
    pub fn most_kv_tokens(&self) -> u32 {
        self.input + self.output - 1
    }
}

/// Reads a trace: JSON by lines if it begins with `{`, else columns. Fails for lines that cannot be read, with number
/// and value, and without requests.
pub fn parse(text: &str) -> Result<Vec<Request>> {
    Ok(parse_with_unknown(text)?.0)
}

/// [`parse`], with the unused keys of JSON requests.
pub fn parse_with_unknown(text: &str) -> Result<(Vec<Request>, BTreeSet<String>)> {
    let mut unknown = BTreeSet::new();
    let lines = text
        .lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line))
        .filter(|(_, line)| !line.trim().is_empty());
    let mut lines = lines.peekable();
    let Some(&(line, first)) = lines.peek() else { bail!("the trace has no requests") };
    let requests: Vec<Request> = if first.trim_start().starts_with('{') {
        lines.map(|(line, text)| from_json(line, text, &mut unknown)).collect::<Result<_, _>>()?
    } else {
        lines.next();
        let names: Vec<&str> = first.trim_end().split('\t').map(str::trim).collect();
        if names != COLUMNS {
            let what = format!(
                "expected a line of JSON or the columns {}, found '{}'",
                COLUMNS.join(", "),
                shortened(first)
            );
            bail!("line {line}: {what}");
        }
        lines.map(|(line, text)| from_columns(line, text)).collect::<Result<_, _>>()?
    };
    if requests.is_empty() { Err(refusal!("the trace has no requests")) } else { Ok((requests, unknown)) }
}

fn shortened(text: &str) -> String {
    let short: String = text.trim().chars().take(40).collect();
    if short.len() < text.trim().len() { short + "..." } else { short }
}

fn from_columns(line: usize, text: &str) -> Result<Request> {
    let values: Vec<&str> = text.trim_end().split('\t').map(str::trim).collect();
    let [input, output, arrival] = values[..] else {
        let what = format!("expected 3 columns between tabs, found {}: '{}'", values.len(), shortened(text));
        bail!("line {line}: {what}");
    };
    let mut numbers = [0; 3];
    for (number, (name, value)) in numbers.iter_mut().zip(COLUMNS.into_iter().zip([input, output, arrival])) {
        *number =
            value.parse().map_err(|_| refusal!("line {line}: {name} = '{}' {NO_COUNT}", shortened(value)))?;
    }
    Request::checked(line, numbers)
}

/// A duplicate key is an error.
#[derive(Deserialize)]
struct Fields {
    input_toks: Option<Value>,
    output_toks: Option<Value>,
    arrival_time_ns: Option<Value>,
    input_tok_ids: Option<Value>,
    output_tok_ids: Option<Value>,
    sub_requests: Option<IgnoredAny>,
    #[serde(flatten)]
    others: BTreeMap<String, IgnoredAny>,
}

/// Other programs' keys without effect on times.
const NAMES: [&str; 4] = ["id", "request_id", "session_id", "model"];

fn from_json(line: usize, text: &str, unknown: &mut BTreeSet<String>) -> Result<Request> {
    let error = |what: String| refusal!("line {line}: {what}");
    if !text.trim_start().starts_with('{') {
        return Err(error(format!("expected an object, found '{}'", shortened(text))));
    }
    let fields: Fields = serde_json::from_str(text).map_err(|reason| {
        let kind = if reason.is_data() { "" } else { "not JSON: " };
        // It counts lines of this one.
        let reason = reason.to_string().replace("line 1 column", "column");
        error(format!("{kind}{reason}, in '{}'", shortened(text)))
    })?;
    if fields.sub_requests.is_some() {
        let what = "a session (sub_requests) is not served; give its requests one by one";
        return Err(error(what.to_owned()));
    }
    unknown.extend(fields.others.into_keys().filter(|key| !NAMES.contains(&key.as_str())));
    let mut numbers = [0; 3];
    let given = [fields.input_toks, fields.output_toks, fields.arrival_time_ns];
    for (number, (name, found)) in numbers.iter_mut().zip(COLUMNS.into_iter().zip(given)) {
        let found = found.ok_or_else(|| error(format!("{name} is missing")))?;
        *number = found
            .as_u64()
            .ok_or_else(|| error(format!("{name} = {} {NO_COUNT}", shortened(&found.to_string()))))?;
    }
    for (name, ids, of, length) in [
        ("input_tok_ids", fields.input_tok_ids, COLUMNS[0], numbers[0]),
        ("output_tok_ids", fields.output_tok_ids, COLUMNS[1], numbers[1]),
    ] {
        let Some(ids) = ids else { continue };
        let found = ids.as_array().map(|ids| ids.len() as u64);
        if found != Some(length) {
            let found = found.map_or("no list".to_owned(), |found| format!("{found} of them"));
            return Err(error(format!("{name} has {found}, and {of} = {length}")));
        }
        if let Some(other) = ids.as_array().into_iter().flatten().find(|id| !id.is_u64()) {
            return Err(error(format!(
                "{name} has {}, expected whole numbers of 0 or more",
                shortened(&other.to_string())
            )));
        }
    }
    Request::checked(line, numbers)
}

pub fn to_jsonl(requests: &[Request]) -> String {
    let mut text = String::new();
    for Request { arrival_ns, input, output } in requests {
        let _ = writeln!(
            text,
            "{{\"input_toks\": {input}, \"output_toks\": {output}, \"arrival_time_ns\": {arrival_ns}}}"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        parse(text).unwrap_err().to_string()
    }

    #[test]
    fn both_forms_are_read_and_one_is_written() {
        let expected = [
            Request { arrival_ns: 4_059_740, input: 3, output: 133 },
            Request { arrival_ns: 0, input: 1, output: 1 },
        ];
        let json = "\n{\"input_toks\": 3, \"output_toks\": 133, \"arrival_time_ns\": 4059740, \"input_tok_ids\": [1, 2, 3]}\n\
                    {\"session_id\": \"x\", \"arrival_time_ns\": 0, \"output_toks\": 1, \"input_toks\": 1}";
        assert_eq!(parse(json).unwrap(), expected);
        assert_eq!(parse(&to_jsonl(&expected)).unwrap(), expected);
        let columns = "input_toks\toutput_toks\tarrival_time_ns\t\r\n3\t133\t4059740\t\r\n1\t1\t0\r\n";
        assert_eq!(parse(columns).unwrap(), expected);
    }

    #[test]
    fn keys_that_nothing_reads_are_named() {
        let line = r#"{"input_toks": 1, "output_toks": 1, "arrival_time_ns": 0, "session_id": 7, "input_tok": 9, "deadline": 5}"#;
        let (requests, unknown) = parse_with_unknown(line).unwrap();
        assert_eq!(
            (requests.len(), unknown.into_iter().collect::<Vec<_>>().join(" ")),
            (1, "deadline input_tok".to_owned())
        );
        let ids = line.replace("\"input_tok\": 9", "\"input_tok_ids\": [-1]");
        assert_eq!(refused(&ids), "line 1: input_tok_ids has -1, expected whole numbers of 0 or more");
    }

    #[test]
    fn errors_name_line_and_value() {
        assert_eq!(refused(""), "the trace has no requests");
        assert_eq!(refused("input_toks\toutput_toks\tarrival_time_ns\n"), "the trace has no requests");
        assert_eq!(
            refused("input,output\n1,2"),
            "line 1: expected a line of JSON or the columns input_toks, output_toks, arrival_time_ns, found 'input,output'"
        );
        let head = "input_toks\toutput_toks\tarrival_time_ns";
        assert_eq!(
            refused(&format!("{head}\n1\t2")),
            "line 2: expected 3 columns between tabs, found 2: '1\t2'"
        );
        assert_eq!(
            refused(&format!("{head}\n1\t2\t3\n1\t-2\t3")),
            "line 3: output_toks = '-2' is not a whole number of 0 or more, in digits without a point or an exponent"
        );
        let line = |input: &str, output: &str, arrival: &str| {
            format!("{{\"input_toks\": {input}, \"output_toks\": {output}, \"arrival_time_ns\": {arrival}}}")
        };
        assert_eq!(refused(&line("0", "1", "0")), "line 1: input_toks = 0 must be in 1..=1048576");
        assert_eq!(refused(&line("1", "0", "0")), "line 1: output_toks = 0 must be in 1..=1048576");
        assert_eq!(
            refused(&line("1048576", "1", "0")),
            "line 1: input_toks + output_toks = 1048577 must be in 2..=1048576"
        );
        assert_eq!(
            refused(&line("1", "1.5", "0")),
            "line 1: output_toks = 1.5 is not a whole number of 0 or more, in digits without a point or an exponent"
        );
        assert!(
            refused(&line("1", "1", "2000000000000000000")).contains("arrival_time_ns = 2000000000000000000")
        );
        assert_eq!(refused("{\"input_toks\": 1, \"output_toks\": 2}"), "line 1: arrival_time_ns is missing");
        assert!(
            refused("{\"input_toks\": 1,").starts_with("line 1: not JSON: EOF while parsing"),
            "{}",
            refused("{")
        );
        let twice = "{\"input_toks\": 1, \"input_toks\": 2, \"output_toks\": 2, \"arrival_time_ns\": 0}";
        assert!(refused(twice).starts_with("line 1: duplicate field `input_toks`"), "{}", refused(twice));
        assert!(
            refused(&format!("{}\n[1, 2, 0]", line("1", "2", "0"))).starts_with("line 2: expected an object")
        );
        assert!(refused("{\"session_id\": 1, \"sub_requests\": []}").contains("session (sub_requests)"));
        let ids = "{\"input_toks\": 2, \"output_toks\": 2, \"arrival_time_ns\": 0, \"input_tok_ids\": [7]}";
        assert_eq!(refused(ids), "line 1: input_tok_ids has 1 of them, and input_toks = 2");
    }
}
