//! The command that made a report, for the report's last section.

pub fn provenance() -> Vec<(&'static str, String)> {
    let version = concat!("ndp ", env!("CARGO_PKG_VERSION")).to_owned();
    let form = std::env::var("NDP_FORM").map(|form| ("NDP_FORM", form));
    [("version", version)].into_iter().chain(form).collect()
}

pub fn rerun() -> String {
    command_line(crate::cli::arguments().iter().map(|arg| arg.to_string_lossy().into_owned()))
}

/// The arguments in shell syntax, with the program's name without its folder. Options for forms of the report are
/// left out, so that equal runs write equal pages.
pub fn command_line(args: impl Iterator<Item = String>) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=,:+@%".contains(c);
    let quoted = |arg: String| {
        let bare = !arg.is_empty() && arg.chars().all(plain);
        if bare { arg } else { format!("'{}'", arg.replace('\'', r"'\''")) }
    };
    let mut line = "ndp".to_owned();
    let mut args = args.skip(1);
    while let Some(arg) = args.next() {
        let (name, value) = arg.split_once('=').map_or((&arg[..], false), |(name, _)| (name, true));
        if ["--html", "--csv"].contains(&name) {
            if !value {
                args.next();
            }
        } else if !["--json", "--verbose", "-v"].contains(&name) {
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
        let plain = "/a/ndp gemv --html x --csv=t --json --json=r --config=tiny".split(' ');
        let args = plain.chain(["a b", "", "it's"]).map(str::to_owned);
        assert_eq!(command_line(args), r"ndp gemv --config=tiny 'a b' '' 'it'\''s'");
    }
}
