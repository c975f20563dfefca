//! Names of the options on the command line, so that options without effect can be refused even if they have a
//! default.

use crate::prelude::*;
use clap::parser::ValueSource;
use clap::{ArgMatches, Command};
use std::collections::BTreeSet;

/// Fields whose options are on the command line. It has to be the first field: clap removes earlier fields from the
/// matches before it.
#[derive(Clone, Debug, Default)]
pub struct Given(BTreeSet<String>);

impl Given {
    pub fn has(&self, field: &str) -> bool {
        self.0.contains(field)
    }

    /// Refuses options that only have an effect with `needed`.
    pub fn only_with<'a>(&self, needed: &str, fields: impl IntoIterator<Item = &'a str>) -> Result<()> {
        let useless = fields.into_iter().find(|field| self.has(field)).map(|field| field.replace('_', "-"));
        useless.map_or(Ok(()), |option| bail!("--{option} has no effect without {needed}; leave it out"))
    }
}

impl clap::FromArgMatches for Given {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let written = |id: &&str| matches.value_source(id) == Some(ValueSource::CommandLine);
        Ok(Self(matches.ids().map(clap::Id::as_str).filter(written).map(str::to_owned).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl clap::Args for Given {
    fn augment_args(command: Command) -> Command {
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        command
    }
}
