//! Conversations with a model: the template that makes them a prompt, and the tokens that end an answer.
//!
//! A folder describes them in `tokenizer_config.json`, `chat_template.jinja` and `generation_config.json`, a GGUF file
//! in its metadata. Templates are Jinja with the functions of Python's strings, as `transformers` runs them.

use std::path::Path;

use minijinja::{Environment, Error, ErrorKind};
use ndp_files::{Result, refusal};
use serde::{Deserialize, Serialize};

use crate::loader::read_json;

const MAX_BYTES: u64 = 16 << 20;

/// Steps of a template: far more than a long conversation takes.
const STEPS: u64 = 1 << 20;

/// Description of conversations in a model's files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Chat {
    /// Each of these tokens ends a text.
    pub end_tokens: Vec<u32>,
    /// Jinja template of a conversation.
    pub template: Option<String>,
    /// Texts of the first and the last token, which the template may name.
    pub marks: [Option<String>; 2],
}

/// Message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Message {
    /// `system`, `user` or `assistant`.
    pub role: &'static str,
    /// Text of the message.
    pub content: String,
}

impl Message {
    /// A message of the user.
    pub fn of_user(content: &str) -> Self {
        Self { role: "user", content: content.to_owned() }
    }
}

/// Token of `tokenizer_config.json`: a text, alone or with options.
#[derive(Deserialize)]
#[serde(untagged)]
pub(crate) enum Mark {
    Text(String),
    Token { content: String },
}

impl Mark {
    pub(crate) fn text(&self) -> &str {
        let (Self::Text(text) | Self::Token { content: text }) = self;
        text
    }
}

#[derive(Deserialize)]
struct Named {
    name: String,
    template: String,
}

/// Template, or several by name.
#[derive(Deserialize)]
#[serde(untagged)]
enum Templates {
    One(String),
    Named(Vec<Named>),
}

#[derive(Default, Deserialize)]
struct TokenizerConfig {
    bos_token: Option<Mark>,
    eos_token: Option<Mark>,
    chat_template: Option<Templates>,
}

/// Token, or several.
#[derive(Deserialize)]
#[serde(untagged)]
enum Ends {
    One(u32),
    Several(Vec<u32>),
}

#[derive(Default, Deserialize)]
struct GenerationConfig {
    eos_token_id: Option<Ends>,
}

/// A file's content; the default without a file. Fails for a file that cannot be read.
pub(crate) fn read<T: Default + for<'a> Deserialize<'a>>(dir: &Path, name: &str) -> Result<T> {
    let path = dir.join(name);
    if path.symlink_metadata().is_err() {
        return Ok(T::default());
    }
    let text = read_json(&path, MAX_BYTES)?;
    ndp_files::parse_json(&text).map_err(|error| refusal!("{} is not valid: {error}", path.display()))
}

impl Chat {
    /// From a model's folder. `generation_config.json` has the end tokens, or else `config.json`.
    pub(crate) fn load(dir: &Path) -> Result<Self> {
        let TokenizerConfig { bos_token, eos_token, chat_template } = read(dir, "tokenizer_config.json")?;
        let mut ends = read::<GenerationConfig>(dir, "generation_config.json")?.eos_token_id;
        if ends.is_none() {
            ends = read::<GenerationConfig>(dir, "config.json")?.eos_token_id;
        }
        let jinja = dir.join("chat_template.jinja");
        let template = match chat_template {
            _ if jinja.symlink_metadata().is_ok() => Some(read_json(&jinja, MAX_BYTES)?),
            Some(Templates::One(template)) => Some(template),
            Some(Templates::Named(all)) => {
                all.into_iter().find(|one| one.name == "default").map(|one| one.template)
            }
            None => None,
        };
        let text = |mark: Option<Mark>| mark.map(|mark| mark.text().to_owned());
        let end_tokens = match ends {
            None => Vec::new(),
            Some(Ends::One(token)) => vec![token],
            Some(Ends::Several(tokens)) => tokens,
        };
        Ok(Self { end_tokens, template, marks: [text(bos_token), text(eos_token)] })
    }

    /// Text of a conversation to which the model gives the next answer. Fails without a template, and as the template.
    pub fn prompt(&self, messages: &[Message]) -> Result<String> {
        let Some(template) = &self.template else {
            return Err(refusal!(
                "the model has no chat template (chat_template in tokenizer_config.json, chat_template.jinja, or tokenizer.chat_template in a \
                 GGUF file): give the whole prompt instead"
            ));
        };
        let mut engine = Environment::new();
        // `transformers` sets both.
        engine.set_trim_blocks(true);
        engine.set_lstrip_blocks(true);
        engine.set_fuel(Some(STEPS));
        engine.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        engine.add_function("raise_exception", |text: String| -> std::result::Result<(), Error> {
            Err(Error::new(ErrorKind::InvalidOperation, text))
        });
        let [bos_token, eos_token] = self.marks.each_ref().map(|mark| mark.as_deref().unwrap_or_default());
        let of = minijinja::context! { messages, bos_token, eos_token, add_generation_prompt => true };
        let text = engine.template_from_str(template).and_then(|template| template.render(of));
        text.map_err(|error| refusal!("the chat template: {error:#}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::tempdir;

    const TEMPLATE: &str = "{% for message in messages %}\n{{ bos_token }}{{ message['role'] }}:\
        {{ message['content'].strip() }}{{ eos_token }}\n{% endfor %}\
        {% if add_generation_prompt %}assistant:{% endif %}";

    fn of(template: &str) -> Result<String> {
        let marks = [Some("<s>".to_owned()), None];
        let chat = Chat { template: Some(template.to_owned()), marks, ..Chat::default() };
        chat.prompt(&[Message::of_user(" Hi? ")])
    }

    #[test]
    fn a_template_makes_a_prompt_as_transformers_does() {
        assert_eq!(of(TEMPLATE).unwrap(), "<s>user:Hi?\nassistant:");
        let error = of("{{ raise_exception('no system message') }}").unwrap_err().to_string();
        assert!(error.contains("no system message"), "{error}");
        for (bad, expected) in [
            ("{% for %}", "syntax error"),
            ("{% for i in range(10000) %}{% for j in range(10000) %}x{% endfor %}{% endfor %}", "fuel"),
        ] {
            let error = of(bad).unwrap_err().to_string();
            assert!(error.starts_with("the chat template: ") && error.contains(expected), "{error}");
        }
        let none = Chat::default().prompt(&[]).unwrap_err().to_string();
        assert!(none.starts_with("the model has no chat template"), "{none}");
    }

    #[test]
    fn a_folder_describes_conversations() {
        let dir = tempdir().unwrap();
        assert_eq!(Chat::load(dir.path()).unwrap(), Chat::default());
        let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        write("config.json", r#"{"eos_token_id": 2}"#);
        write(
            "tokenizer_config.json",
            r#"{"bos_token": {"content": "<s>"}, "eos_token": "</s>", "chat_template": "a"}"#,
        );
        let marks = ["<s>", "</s>"].map(|text| Some(text.to_owned()));
        let expected = Chat { end_tokens: vec![2], template: Some("a".to_owned()), marks };
        assert_eq!(Chat::load(dir.path()).unwrap(), expected);
        write("generation_config.json", r#"{"eos_token_id": [7, 8]}"#);
        write(
            "tokenizer_config.json",
            r#"{"chat_template": [{"name": "rag", "template": "b"}, {"name": "default", "template": "c"}]}"#,
        );
        let chat = Chat::load(dir.path()).unwrap();
        assert_eq!((chat.end_tokens, chat.template.as_deref()), (vec![7, 8], Some("c")));
        write("chat_template.jinja", "d");
        assert_eq!(Chat::load(dir.path()).unwrap().template.as_deref(), Some("d"));
        write("generation_config.json", r#"{"eos_token_id": "x"}"#);
        let error = Chat::load(dir.path()).unwrap_err().to_string();
        assert!(error.contains("generation_config.json is not valid"), "{error}");
    }
}
