//! The block diagram of a package: the instances in its top module, and their connections.

use crate::package::Source;
use ndp_hdl_language::{End, Module};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Instances of one module whose names differ in their numbers, as one box. The first box is the inputs, the last one
/// the outputs.
struct Block {
    name: String,
    count: usize,
    module: String,
    about: String,
}

/// Size of a box and distance between boxes, in pixels.
const SIZE: (usize, usize) = (216, 84);
const GAP: (usize, usize) = (96, 22);
const MARGIN: usize = 24;
const LINE: usize = 34;

/// The name without its numbers: instances that share it are one box.
fn stem(name: &str) -> String {
    let stem: String = name.chars().filter(|c| !c.is_ascii_digit()).collect();
    stem.trim_matches('_').replace("__", "_")
}

/// Boxes, and the bits between them.
fn blocks(top: &Module) -> (Vec<Block>, BTreeMap<(usize, usize), u64>) {
    let port =
        |name: &str| Block { name: name.into(), count: 1, module: String::new(), about: String::new() };
    let mut blocks = vec![port("inputs")];
    let mut box_of = Vec::new();
    for (name, module) in top.instances() {
        let stem = stem(name);
        let known = blocks.iter().position(|block| block.name == stem && block.module == module.name());
        let at = known.unwrap_or(blocks.len());
        match blocks.get_mut(at) {
            Some(block) => block.count += 1,
            None => blocks.push(Block {
                name: stem,
                count: 1,
                module: module.name().into(),
                about: module.doc().into(),
            }),
        }
        box_of.push(at);
    }
    blocks.push(port("outputs"));
    let (inputs, outputs) = (0, blocks.len() - 1);
    let mut lines = BTreeMap::new();
    for (from, to, bits) in top.connections() {
        let of = |end, port| match end {
            End::Port => port,
            End::Instance(number) => box_of[number],
        };
        let (from, to) = (of(from, inputs), of(to, outputs));
        if from != to && (from, to) != (inputs, outputs) {
            *lines.entry((from, to)).or_insert(0) += u64::from(bits);
        }
    }
    (blocks, lines)
}

/// The order in which few bits go backwards: first pure sources, last pure sinks, between them the drivers of most of
/// the rest first (P. Eades, X. Lin, W. F. Smyth, Information Processing Letters 47, 1993).
fn order(count: usize, lines: &BTreeMap<(usize, usize), u64>) -> Vec<usize> {
    let mut left: BTreeSet<usize> = (0..count).collect();
    let (mut first, mut last) = (Vec::new(), Vec::new());
    while !left.is_empty() {
        let bits = |chosen: &dyn Fn(&(usize, usize)) -> bool| -> i64 {
            let inside = lines.iter().filter(|((a, b), _)| left.contains(a) && left.contains(b));
            inside.filter(|(line, _)| chosen(line)).map(|(_, bits)| bits.ilog2() as i64 + 1).sum()
        };
        let out = |block: usize| bits(&|line| line.0 == block);
        let into = |block: usize| bits(&|line| line.1 == block);
        let sink = left.iter().copied().find(|block| out(*block) == 0 && *block != 0);
        let source = left.iter().copied().find(|block| into(*block) == 0);
        let next = source.or_else(|| left.iter().copied().max_by_key(|block| out(*block) - into(*block)));
        let (chosen, end) = match (sink, next) {
            (Some(sink), _) => (sink, &mut last),
            (None, Some(next)) => (next, &mut first),
            (None, None) => break,
        };
        end.push(chosen);
        left.remove(&chosen);
    }
    first.extend(last.into_iter().rev());
    first
}

fn places(count: usize, lines: &BTreeMap<(usize, usize), u64>) -> Vec<(usize, usize)> {
    let order = order(count, lines);
    let mut rank = vec![0; count];
    order.iter().enumerate().for_each(|(at, block)| rank[*block] = at);
    let mut column = vec![0; count];
    for block in &order {
        let before = lines.keys().filter(|(a, b)| b == block && rank[*a] < rank[*b]);
        column[*block] = before.map(|(a, _)| column[*a] + 1).max().unwrap_or(usize::from(*block != 0));
    }
    // The outputs stand at the right.
    column[count - 1] = column.iter().copied().max().unwrap_or(0).max(column[count - 1]);
    let mut rows = BTreeMap::new();
    let mut places = vec![(0, 0); count];
    for block in order {
        let row = rows.entry(column[block]).or_insert(0);
        places[block] = (column[block], *row);
        *row += 1;
    }
    places
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn lines_of(text: &str, count: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(last) if last.len() + word.len() < LINE => *last += &format!(" {word}"),
            _ => lines.push(word.to_owned()),
        }
    }
    if lines.len() > count {
        lines.truncate(count);
        lines[count - 1] += " ..";
    }
    lines
}

pub(crate) fn svg(source: &Source, top: &Module) -> String {
    let (blocks, lines) = blocks(top);
    let places = places(blocks.len(), &lines);
    let corner = |block: usize| {
        let (column, row) = places[block];
        (MARGIN + column * (SIZE.0 + GAP.0), MARGIN + 34 + row * (SIZE.1 + GAP.1))
    };
    let [columns, rows] =
        [places.iter().map(|place| place.0).max(), places.iter().map(|place| place.1).max()]
            .map(|most| most.unwrap_or(0) + 1);
    let width = 2 * MARGIN + columns * (SIZE.0 + GAP.0) - GAP.0;
    let height = 2 * MARGIN + 34 + rows * (SIZE.1 + GAP.1);
    let mut text = format!(
        "<!-- Generated from {} -->\n\
         <svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text x=\"{MARGIN}\" y=\"{}\" font-size=\"16\">{}: {}</text>\n",
        // Two hyphens would end the comment.
        escaped(&source.words()).replace("--", "- -"),
        MARGIN + 6,
        escaped(&source.block),
        escaped(top.doc()),
    );
    for ((from, to), bits) in &lines {
        let ((x, y), (to_x, to_y)) = (corner(*from), corner(*to));
        let forward = places[*from].0 < places[*to].0;
        let ((x, y), (to_x, to_y)) = if forward {
            ((x + SIZE.0, y + SIZE.1 / 2), (to_x, to_y + SIZE.1 / 2))
        } else {
            ((x + SIZE.0 / 2, y + SIZE.1), (to_x + SIZE.0 / 2, to_y + SIZE.1))
        };
        let curve = if forward {
            let middle = x.midpoint(to_x);
            format!("C{middle},{y} {middle},{to_y}")
        } else {
            format!("C{x},{0} {to_x},{0}", y.max(to_y) + GAP.1)
        };
        let (color, style) = if forward { ("#456", "") } else { ("#a65", " stroke-dasharray=\"4 3\"") };
        let _ = writeln!(
            text,
            "<path d=\"M{x},{y} {curve} {to_x},{to_y}\" fill=\"none\" stroke=\"{color}\" stroke-opacity=\"0.55\" stroke-width=\"{:.1}\"{style}>\
             <title>{} to {}: {bits} bits</title></path>",
            0.8 + 0.35 * f64::from(bits.ilog2()),
            escaped(&blocks[*from].name),
            escaped(&blocks[*to].name),
        );
    }
    for (number, Block { name, count, module, about }) in blocks.iter().enumerate() {
        let (x, y) = corner(number);
        let times = if *count > 1 { format!(" ({count})") } else { String::new() };
        let fill = if module.is_empty() { "#eee" } else { "#e8f1fa" };
        let _ = writeln!(
            text,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{}\" height=\"{}\" rx=\"6\" fill=\"{fill}\" stroke=\"#345\"/>\n\
             <text x=\"{}\" y=\"{}\" font-weight=\"bold\">{}{times}</text>",
            SIZE.0,
            SIZE.1,
            x + 10,
            y + 20,
            escaped(name),
        );
        for (line, words) in lines_of(about, 3).iter().enumerate() {
            let _ = writeln!(
                text,
                "<text x=\"{}\" y=\"{}\" fill=\"#333\">{}</text>",
                x + 10,
                y + 38 + 15 * line,
                escaped(words.trim())
            );
        }
    }
    text + "</svg>\n"
}
