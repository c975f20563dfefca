//! The folder of a sweep: its points, and a file for each result, named after everything on which the result depends.

use super::space::Point;
use crate::prelude::*;
use ndp_files::REFUSED;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::{Command, Output};
use std::time::Instant;

/// Bound in bytes on a report, and on the list of points.
const MOST_BYTES: u64 = 1 << 30;
/// Folders that have a file for each point.
const FOLDERS: [&str; 3] = ["results", "outputs", "files"];
/// All other files of the sweep's folder.
const NAMES: [&str; 8] = [
    "points.jsonl",
    "results.jsonl",
    "results.csv",
    "results.parquet",
    "parallel.txt",
    "hyperqueue.sh",
    "slurm.sh",
    "slurm-submit.sh",
];
/// Most JSON pointers in a message.
const MOST_POINTERS: usize = 20;

/// A line of `results.jsonl`. It contains no times, so that equal points have equal bytes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outcome {
    pub key: String,
    pub command: String,
    /// Keys of configurations that the sweep sets.
    pub keys: BTreeMap<String, Value>,
    /// Options of the command that the sweep sets.
    pub options: BTreeMap<String, Value>,
    /// Measured values; empty if the point was refused.
    pub metrics: BTreeMap<String, Value>,
    /// The command's complete error if it refused the point.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// Output of a run, and the time that it took.
#[derive(Debug, Serialize, Deserialize)]
struct Ran {
    seconds: f64,
    command: Vec<String>,
    output: Value,
}

#[derive(Clone, Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// Prevents programs from taking the path for an option.
    pub fn new(path: &Path) -> Self {
        let dash = path.as_os_str().as_encoded_bytes().starts_with(b"-");
        Self(if dash { Path::new(".").join(path) } else { path.to_owned() })
    }

    /// Adds the sweep's files as inputs.
    pub fn inputs(&self, files: FileSet) -> FileSet {
        let what = "a file of the sweep";
        let files = NAMES.iter().fold(files, |files, name| files.input(what, self.file(name)));
        FOLDERS.iter().fold(files, |files, name| files.input_folder(what, self.file(name)))
    }

    /// Adds the sweep's files as outputs.
    pub fn outputs(&self, files: FileSet) -> FileSet {
        let files =
            NAMES.iter().fold(files, |files, name| files.output(&format!("--out ({name})"), self.file(name)));
        FOLDERS.iter().fold(files, |files, name| files.output_folder("--out", self.file(name)))
    }

    /// Whether a path leads into a folder that has a file for each point, even if the path does not exist.
    pub fn keeps(&self, path: &Path) -> bool {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let is = |own: &&str| {
            self.file(own)
                .canonicalize()
                .is_ok_and(|own| folder.canonicalize().is_ok_and(|folder| folder == own))
        };
        FOLDERS.iter().any(is)
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn result(&self, key: &str) -> PathBuf {
        self.0.join("results").join(format!("{key}.json"))
    }

    /// Path of a point's output in the folder.
    pub fn output(key: &str) -> String {
        format!("outputs/{key}.json")
    }

    /// Writes the list of points. Existing results stay.
    pub fn begin(&self, points: &[Point]) -> Result<()> {
        for name in FOLDERS {
            let path = self.file(name);
            std::fs::create_dir_all(&path).with_context(|| format!("cannot create '{}'", path.display()))?;
        }
        let lines: Result<Vec<String>, _> = points.iter().map(serde_json::to_string).collect();
        write(&self.file("points.jsonl"), &format!("{}\n", lines?.join("\n")))
    }

    pub fn points(&self) -> Result<Vec<Point>> {
        let path = self.file("points.jsonl");
        let text = ndp_files::read_text(&path, MOST_BYTES).with_context(|| {
            format!("cannot read '{}' (`ndp sweep run` makes the folder of a sweep)", path.display())
        })?;
        let parsed: Result<Vec<Point>, _> = text.lines().map(serde_json::from_str).collect();
        let whole = parsed.map_err(anyhow::Error::from).and_then(|points| {
            ensure!(!points.is_empty(), "it has no points; `ndp sweep run` writes it again");
            points.iter().try_for_each(|point| point.check(points.len()))?;
            Ok(points)
        });
        whole.with_context(|| format!("'{}' is not a list of points", path.display()))
    }

    pub fn outcome(&self, point: &Point) -> Result<Option<Outcome>> {
        let path = self.result(&point.key);
        if !path.exists() {
            return Ok(None);
        }
        let text = ndp_files::read_text(&path, MOST_BYTES)
            .with_context(|| format!("cannot read '{}'", path.display()))?;
        let outcome: Outcome = serde_json::from_str(&text).with_context(|| {
            format!("'{}' is not a result; delete it to run the point again", path.display())
        })?;
        ensure!(outcome.key == point.key, "'{}' is the result of another point", path.display());
        let lost = point.metrics.keys().find(|name| !outcome.metrics.contains_key(*name));
        if let Some(name) = lost.filter(|_| outcome.refused.is_none()) {
            bail!("'{}' lacks the metric `{name}`; delete the file to run the point again", path.display());
        }
        // The key does not contain the name of a command.
        Ok(Some(Outcome { command: point.command.clone(), ..outcome }))
    }

    pub fn seconds(&self, key: &str) -> Option<f64> {
        let text = ndp_files::read_text(&self.file(&Self::output(key)), MOST_BYTES).ok()?;
        serde_json::from_str::<Ran>(&text).ok().map(|ran| ran.seconds)
    }

    pub fn forget(&self, point: &Point) -> Result<()> {
        let path = self.result(&point.key);
        std::fs::remove_file(&path).with_context(|| format!("cannot remove '{}'", path.display()))
    }

    /// Runs a point that has no result, and stores its metrics or refusal. Returns whether the point ran.
    pub fn run(&self, point: &Point) -> Result<bool> {
        if self.outcome(point)?.is_some() {
            return Ok(false);
        }
        let mut words = point.words.clone();
        for (index, (option, text)) in point.files.iter().enumerate() {
            let path = self.file("files").join(format!("{}-{index}.toml", point.key));
            write(&path, text)?;
            words.extend([option.clone(), path.display().to_string()]);
        }
        words.push("--json".to_owned());
        let line = format!("ndp {}", words.join(" "));
        let begin = Instant::now();
        let ran = ndp_files::output(Command::new(std::env::current_exe()?).args(&words))?;
        let Output { status, stdout: out, stderr: err } = ran;
        let seconds = begin.elapsed().as_secs_f64();
        let mut outcome = Outcome {
            key: point.key.clone(),
            command: point.command.clone(),
            keys: json_of(&point.keys)?,
            options: json_of(&point.options)?,
            metrics: BTreeMap::new(),
            refused: None,
        };
        let mut output = Value::Null;
        let measured = match status.code() {
            Some(0) => serde_json::from_slice(&out).context("it prints no JSON").and_then(|value| {
                output = value;
                metrics(point, &output).map(|metrics| outcome.metrics = metrics)
            }),
            // Leave out the path of the folder, so that equal points have equal bytes.
            Some(code) if code == i32::from(REFUSED) => {
                outcome.refused =
                    Some(reason(&err).replace(&self.file("files").display().to_string(), "files"));
                Ok(())
            }
            _ => Err(anyhow::anyhow!("{status}: {}", bare(&reason(&err)))),
        };
        let kept = ["out", "err"].map(|kind| self.file("outputs").join(format!("{}.{kind}", point.key)));
        if let Err(error) = measured {
            for (path, bytes) in kept.iter().zip([&out, &err]) {
                OutputFile::create(path)?.finish(|file| file.write_all(bytes))?;
            }
            let [out, err] = kept.map(|path| path.display().to_string());
            return Err(error.context(format!("`{line}` failed, it printed '{out}' and '{err}'")));
        }
        for path in kept.iter().filter(|path| path.exists()) {
            std::fs::remove_file(path).with_context(|| format!("cannot remove '{}'", path.display()))?;
        }
        let ran = Ran { seconds, command: words, output };
        write(&self.file(&Self::output(&point.key)), &serde_json::to_string(&ran)?)?;
        write(&self.result(&point.key), &format!("{}\n", serde_json::to_string(&outcome)?))?;
        Ok(true)
    }
}

/// The error in a command's output, from its first line to its end.
fn reason(err: &[u8]) -> String {
    let text = String::from_utf8_lossy(err);
    let begin = text.lines().position(|line| line.starts_with("error"));
    let lines = begin.map(|begin| text.lines().skip(begin).join("\n"));
    lines.map_or_else(|| "it printed no error".to_owned(), |lines| lines.trim_end().to_owned())
}

/// An error without its prefix, for a message that has its own.
pub fn bare(error: &str) -> &str {
    error.strip_prefix("error: ").unwrap_or(error)
}

fn metrics(point: &Point, output: &Value) -> Result<BTreeMap<String, Value>> {
    let mut found = BTreeMap::new();
    for (name, pointer) in &point.metrics {
        let value = output.pointer(pointer).filter(|value| !value.is_object() && !value.is_array());
        let Some(value) = value else {
            bail!("metric `{name}`: no value at \"{pointer}\"; available: {}", known(output, pointer));
        };
        found.insert(name.clone(), value.clone());
    }
    Ok(found)
}

/// JSON pointers of values, starting with those most similar to the wanted one.
fn known(output: &Value, wanted: &str) -> String {
    let mut pointers = Vec::new();
    let mut open = vec![(String::new(), output)];
    while let Some((path, value)) = open.pop() {
        match value {
            Value::Object(fields) => open.extend(fields.iter().map(|(name, value)| {
                (format!("{path}/{}", name.replace('~', "~0").replace('/', "~1")), value)
            })),
            Value::Array(elements) => {
                open.extend(elements.iter().enumerate().map(|(n, value)| (format!("{path}/{n}"), value)));
            }
            _ => pointers.push((strsim::jaro(&path, wanted), path)),
        }
    }
    pointers.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    let more = pointers.len().saturating_sub(MOST_POINTERS);
    let mut names: Vec<String> =
        pointers.iter().take(MOST_POINTERS).map(|(_, path)| format!("\"{path}\"")).collect();
    match more {
        0 if names.is_empty() => "none".to_owned(),
        0 => names.join(", "),
        more => {
            names.push(format!("{more} more"));
            names.join(", ")
        }
    }
}

fn json_of(chosen: &BTreeMap<String, toml::Value>) -> Result<BTreeMap<String, Value>> {
    chosen.iter().map(|(key, value)| Ok((key.clone(), serde_json::to_value(value)?))).collect()
}
