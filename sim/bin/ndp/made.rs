//! Reports of this tool: how each was made is in its last section.

use ndp_report::Report;

/// An empty report with the command line and the version.
pub fn begin(title: &str) -> Report {
    let report = Report::new(title)
        .provenance(
            "command",
            &command_line(std::env::args_os().map(|arg| arg.to_string_lossy().into_owned())),
        )
        .provenance("version", concat!("ndp ", env!("CARGO_PKG_VERSION")));
    match std::env::var("NDP_FORM") {
        Ok(form) => report.provenance("NDP_FORM", &form),
        Err(_) => report,
    }
}

/// The arguments as a shell takes them; the program's name without its folder. The page's own name is left out, so that equal runs write
/// equal pages.
fn command_line(args: impl Iterator<Item = String>) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=,:+@%".contains(c);
    let quoted = |arg: String| {
        let bare = !arg.is_empty() && arg.chars().all(plain);
        if bare { arg } else { format!("'{}'", arg.replace('\'', r"'\''")) }
    };
    let mut line = "ndp".to_owned();
    let mut args = args.skip(1);
    while let Some(arg) = args.next() {
        if arg == "--html" {
            args.next();
        } else if !arg.starts_with("--html=") {
            line = format!("{line} {}", quoted(arg));
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_can_be_pasted_into_a_shell() {
        let args =
            ["/a/ndp", "gemv", "--html", "x.html", "--config=tiny", "a b", "", "it's"].map(str::to_owned);
        assert_eq!(command_line(args.into_iter()), r"ndp gemv --config=tiny 'a b' '' 'it'\''s'");
    }
}
