//! Tokens of GGUF files: words split as each kind of tokenizer does, and pieces merged by their scores.

use super::*;
use ndp_model::Message;

/// The character that stands for a byte in byte-level vocabularies: itself if it is printable, or one above 255.
fn character(byte: u8) -> char {
    let printable = |byte: &u8| matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..);
    match printable(&byte) {
        true => char::from(byte),
        false => char::from_u32(256 + (0..byte).filter(|other| !printable(other)).count() as u32).unwrap(),
    }
}

fn spelled(text: &str) -> String {
    text.bytes().map(character).collect()
}

/// Gives a file `tokens` tokens: letters, no merges.
pub fn bytes_vocabulary(file: &mut File, tokens: usize) {
    let letters: Vec<String> = (0..tokens).map(|n| character(b'A' + n as u8).to_string()).collect();
    file.set("tokenizer.ggml.model", text("gpt2"));
    file.set("tokenizer.ggml.tokens", texts(&letters));
    file.set("tokenizer.ggml.merges", texts::<&str>(&[]));
}

/// A model with the tokens `<s>`, `</s>` and `<mark>`, all bytes, and words with the merges that build them.
pub fn words_file(pre: &str, words: &[&str]) -> (File, Vec<String>) {
    let mut tokens: Vec<String> = ["<s>", "</s>", "<mark>"].map(str::to_owned).to_vec();
    tokens.extend((0..=255).map(|byte| character(byte).to_string()));
    let mut merges = Vec::new();
    for word in words {
        let mut left = String::new();
        for c in spelled(word).chars() {
            if !left.is_empty() && !tokens.contains(&format!("{left}{c}")) {
                merges.push(format!("{left} {c}"));
                tokens.push(format!("{left}{c}"));
            }
            left.push(c);
        }
    }
    let mut json = config_json();
    json["vocab_size"] = tokens.len().into();
    let config = config(&json);
    let mut file = File::of(&config, &model_and_tensors(config.clone(), 1).1);
    let types: Vec<i32> = (0..tokens.len())
        .map(|n| match n {
            0 | 1 => 3,
            2 => 4,
            _ => 1,
        })
        .collect();
    file.set("tokenizer.ggml.model", text("gpt2"));
    file.set("tokenizer.ggml.pre", text(pre));
    file.set("tokenizer.ggml.tokens", texts(&tokens));
    file.set("tokenizer.ggml.token_type", i32s(&types));
    file.set("tokenizer.ggml.merges", texts(&merges));
    file.set("tokenizer.ggml.bos_token_id", write::u32(0));
    file.set("tokenizer.ggml.eos_token_id", write::u32(1));
    (file, tokens)
}

/// Tokens of a text, joined by bars.
fn split(vocabulary: &Vocabulary, tokens: &[String], text: &str) -> String {
    let found = vocabulary.tokens(text.as_bytes()).unwrap();
    assert_eq!(vocabulary.text(&found).unwrap(), text.replace("<s>", "").replace("</s>", ""));
    found.iter().map(|token| tokens[*token as usize].as_str()).collect::<Vec<_>>().join("|")
}

#[test]
fn byte_level_tokens_split_words_as_the_file_s_kind_does() {
    let words = ["1234", " the", "'s", "'S", "!\n", "x=", " 12", "  "];
    for (pre, begins, expected) in [
        ("smollm", false, "1|2|3|4|Ġthe|'s|'|S|!|Ċ|x|=|Ġ|1|2|ĠĠ"),
        ("gpt-2", false, "1234|Ġthe|'s|'|S|!|Ċ|x|=|Ġ|12|ĠĠ"),
        ("default", false, "123|4|Ġthe|'|s|'|S|!|Ċ|x|=|Ġ|12|ĠĠ"),
        ("llama-bpe", true, "123|4|Ġthe|'s|'S|!Ċ|x|=|Ġ|12|ĠĠ"),
        ("qwen2", false, "1|2|3|4|Ġthe|'s|'S|!Ċ|x|=|Ġ|1|2|ĠĠ"),
    ] {
        let (mut file, tokens) = words_file(pre, &words);
        let vocabulary = load_file(&file).unwrap().0.vocabulary;
        let found = split(&vocabulary, &tokens, "1234 the's'S!\nx= 12  ");
        let expected = if begins { format!("<s>|{expected}") } else { expected.to_owned() };
        assert_eq!(found, expected, "{pre}");
        assert_eq!(vocabulary.end_tokens(), [1]);
        // Tokens stand for themselves, and an option adds the first one or leaves it out.
        file.set("tokenizer.ggml.add_bos_token", boolean(!begins));
        file.set("tokenizer.chat_template", text("{{ eos_token }}{{ messages[0].content }}"));
        let vocabulary = load_file(&file).unwrap().0.vocabulary;
        let first = if begins { "" } else { "<s>|" };
        assert_eq!(split(&vocabulary, &tokens, "<s>the</s><mark>"), format!("{first}<s>|t|h|e|</s>|<mark>"));
        let (prompt, conversation) = vocabulary.conversation(&[Message::of_user("ab")]).unwrap();
        // The template has no first token, so there is none.
        assert_eq!((prompt.as_str(), conversation.len()), ("</s>ab", 3));
    }
    // LLaMA 3 takes a word that is a token as a whole, even if no merges build it.
    for (pre, expected) in [("llama-bpe", "<s>|abcd"), ("qwen2", "a|b|c|d")] {
        let (mut file, mut tokens) = words_file(pre, &["ab"]);
        let last = tokens.len() - 1;
        tokens[last] = "abcd".into();
        file.set("tokenizer.ggml.tokens", texts(&tokens));
        file.set("tokenizer.ggml.merges", texts::<&str>(&[]));
        assert_eq!(split(&load_file(&file).unwrap().0.vocabulary, &tokens, "abcd"), expected);
    }
}

/// The merges of SentencePiece, slowly: the best pair of neighbours that is a piece, the leftmost of equal ones.
fn merged(pieces: &[(String, f32)], text: &str) -> Vec<usize> {
    let number = |text: &str| pieces.iter().position(|(piece, _)| piece == text);
    let mut parts: Vec<String> = text.chars().map(String::from).collect();
    loop {
        let score = |at: usize| number(&format!("{}{}", parts[at], parts[at + 1])).map(|n| pieces[n].1);
        let best = (0..parts.len().saturating_sub(1)).filter_map(|at| Some((score(at)?, at))).fold(
            None,
            |best: Option<(f32, usize)>, own| {
                if best.is_none_or(|best| own.0 > best.0) { Some(own) } else { best }
            },
        );
        let Some((_, at)) = best else { break };
        let right = parts.remove(at + 1);
        parts[at].push_str(&right);
    }
    let byte = |byte: u8| number(&format!("<0x{byte:02X}>")).unwrap();
    parts
        .iter()
        .flat_map(|part| number(part).map_or_else(|| part.bytes().map(byte).collect(), |n| vec![n]))
        .collect()
}

#[test]
fn pieces_with_scores_merge_as_sentencepiece_merges_them() {
    let mut pieces: Vec<(String, f32)> = ["<unk>", "<s>", "</s>"].map(|text| (text.to_owned(), 0.0)).to_vec();
    pieces.extend((0..=255).map(|byte| (format!("<0x{byte:02X}>"), 0.0)));
    let mut rng = SplitMix64::new(13);
    let mut next = -1.0;
    let letters = ["a", "b", "c", "\u{2581}"];
    for len in 1..=4 {
        for n in 0..4usize.pow(len) {
            let text: String = (0..len).map(|at| letters[n / 4usize.pow(at) % 4]).collect();
            if len <= 2 && n % 3 != 1 || len == 1 || rng.next_u64().is_multiple_of(3) {
                pieces.push((text, next));
                next -= 1.0;
            }
        }
    }
    // Scores in another order than numbers.
    let scores: Vec<f32> = pieces
        .iter()
        .map(|(_, score)| if *score == 0.0 { 0.0 } else { -((*score * 7.0).rem_euclid(101.0)) - 1.0 })
        .collect();
    for (piece, score) in pieces.iter_mut().zip(&scores) {
        piece.1 = *score;
    }
    let mut json = config_json();
    json["vocab_size"] = pieces.len().into();
    let config = config(&json);
    let mut file = File::of(&config, &model_and_tensors(config.clone(), 1).1);
    let kind = |n: usize| match n {
        0 => 2,
        1 | 2 => 3,
        3..259 => 6,
        _ => 1,
    };
    file.set("tokenizer.ggml.model", text("llama"));
    file.set("tokenizer.ggml.tokens", texts(&pieces.iter().map(|(text, _)| text).collect::<Vec<_>>()));
    file.set("tokenizer.ggml.token_type", i32s(&(0..pieces.len()).map(kind).collect::<Vec<_>>()));
    file.set("tokenizer.ggml.scores", f32s(&scores));
    file.set("tokenizer.ggml.bos_token_id", write::u32(1));
    file.set("tokenizer.ggml.eos_token_id", write::u32(2));
    file.set("tokenizer.ggml.unknown_token_id", write::u32(0));
    let vocabulary = load_file(&file).unwrap().0.vocabulary;
    for _ in 0..300 {
        let text: String = (0..rng.next_u64() % 14)
            .map(|_| ["a", "b", "c", " ", "d", "é"][(rng.next_u64() % 6) as usize])
            .collect();
        let marked = format!("\u{2581}{}", text.replace(' ', "\u{2581}"));
        let expected: Vec<u32> =
            [1].into_iter().chain(merged(&pieces, &marked).into_iter().map(|n| n as u32)).collect();
        let expected = if text.is_empty() { vec![1] } else { expected };
        let found = vocabulary.tokens(text.as_bytes()).unwrap();
        assert_eq!(found, expected, "'{text}'");
        assert_eq!(vocabulary.text(&found).unwrap(), text);
    }
    let found = vocabulary.tokens(b"</s>ab").unwrap();
    assert_eq!(found[..2], [1, 2]);
    let (last, long) = (pieces.len() - 1, "a".repeat(513));
    let mut names: Vec<&str> = pieces.iter().map(|(text, _)| text.as_str()).collect();
    names[last] = &long;
    file.set("tokenizer.ggml.tokens", texts(&names));
    refused(&file, &format!("token {last} has 513 bytes, expected at most 512"));
}
