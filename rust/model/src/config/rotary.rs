//! Rotary embedding, from earlier and later fields of `transformers`: base, scaling and rotated part of a head. Angles
//! that depend on the length of the text are refused.

use ndp_files::{Error, Result, ensure, refusal};
use ndp_numerics::{Decimal, RotaryScaling, YarnAttention};
use serde_json::{Map, Value};

use super::{Fields, require, unsupported};

/// Key of the rotated share of each head.
const PART: &str = "partial_rotary_factor";

/// Base without a field.
const BASE: f64 = 10_000.0;

/// Turns that bound YaRN's interpolation, without a field.
const YARN_TURNS: [u32; 2] = [32, 1];

pub(super) struct Rotary {
    rope_theta: Option<f64>,
    rope_scaling: Option<Map<String, Value>>,
    rope_parameters: Option<Map<String, Value>>,
    partial_rotary_factor: Option<f64>,
    original_max_position_embeddings: Option<u32>,
}

/// Angles of all layers, or of those of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Angles {
    /// Base of the frequencies.
    pub base: u64,
    /// Change of the frequencies.
    pub scaling: RotaryScaling,
}

/// Types with the keys that each requires or allows.
const TYPES: [(&str, &[&str]); 5] = [
    ("default", &[]),
    ("linear", &["factor"]),
    // Within the model's positions it equals the default.
    ("dynamic", &["factor"]),
    ("llama3", &["factor", "low_freq_factor", "high_freq_factor"]),
    (
        "yarn",
        &["factor", "attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "truncate"],
    ),
];

/// Parameters in one field.
struct Parameters<'a> {
    field: &'static str,
    given: &'a Map<String, Value>,
    /// Positions in training, unless the parameters say otherwise.
    positions: u32,
}

impl Parameters<'_> {
    fn get(&self, key: &str) -> Option<&Value> {
        self.given.get(key).filter(|value| !value.is_null())
    }

    fn refused(&self, key: &str, expected: &str) -> Error {
        let found = self.get(key).map_or_else(|| "(absent)".to_owned(), Value::to_string);
        refusal!("config: {}.{key} = {found}, expected {expected}", self.field)
    }

    fn decimal(&self, key: &str, default: Option<Decimal>) -> Result<Decimal> {
        let found = match self.get(key) {
            None => default,
            Some(value) => value.as_f64().and_then(Decimal::from_f64),
        };
        found.ok_or_else(|| self.refused(key, "0, or a number from 10^-6 to 10^6"))
    }

    fn positions(&self) -> Result<u32> {
        let key = "original_max_position_embeddings";
        let Some(value) = self.get(key) else { return Ok(self.positions) };
        let positions = value.as_u64().and_then(|positions| u32::try_from(positions).ok());
        positions.filter(|positions| *positions > 0).ok_or_else(|| self.refused(key, "1..=2^32-1"))
    }

    fn kind(&self) -> Result<&'static str> {
        let named = self
            .given
            .iter()
            .filter(|(key, kind)| matches!(key.as_str(), "rope_type" | "type") && !kind.is_null());
        let mut found = "default";
        for (_, kind) in named {
            let known = TYPES.iter().find(|(name, _)| kind.as_str() == Some(name));
            let Some((name, _)) = known else {
                let kinds = TYPES.map(|(name, _)| name).join(", ");
                return Err(unsupported(self.field, kind.as_str().unwrap_or(&kind.to_string()), kinds));
            };
            ensure!(
                found == "default" || found == *name,
                "config: {} = {found} and {name}, expected one type",
                self.field
            );
            found = name;
        }
        Ok(found)
    }

    fn scaling(&self) -> Result<RotaryScaling> {
        let kind = self.kind()?;
        let own = TYPES.iter().find(|(name, _)| *name == kind).map_or(&[][..], |(_, keys)| keys);
        let is_default = matches!(kind, "default");
        let known = |(key, value): (&String, &Value)| match key.as_str() {
            "rope_type" | "type" | "original_max_position_embeddings" => true,
            "rope_theta" => value.is_number(),
            "partial_rotary_factor" => value.as_f64() == Some(1.0),
            "factor" if is_default => value.as_f64() == Some(1.0),
            key => own.contains(&key),
        };
        if !self.given.iter().filter(|(_, value)| !value.is_null()).all(known) {
            let keys = own.iter().fold("rope_theta".to_owned(), |all, key| format!("{all}, {key}"));
            let expected = format!("no other keys than {keys} and rope_type = {kind}, for all layers alike");
            return Err(unsupported(self.field, Value::Object(self.given.clone()), expected));
        }
        if matches!(kind, "default" | "dynamic") {
            return Ok(RotaryScaling::Default);
        }
        let at_least_1 = |factor: Decimal| factor >= Decimal::ONE;
        let factor = self.decimal("factor", None).ok().filter(|factor| at_least_1(*factor));
        let factor = factor.ok_or_else(|| self.refused("factor", "a number from 1 to 10^6"))?;
        let above = |key: &str, limit: Decimal, default| {
            let value = self.decimal(key, default)?;
            let expected = format!("a number above {limit}, at most 10^6");
            if value > limit { Ok(value) } else { Err(self.refused(key, &expected)) }
        };
        Ok(match kind {
            "linear" => RotaryScaling::Linear { factor },
            "llama3" => {
                let low = self.decimal("low_freq_factor", None)?;
                let high = above("high_freq_factor", low, None)?;
                RotaryScaling::Llama3 { factor, low, high, positions: self.positions()? }
            }
            _ => {
                if self.get("truncate").is_some_and(|value| *value != Value::Bool(true)) {
                    return Err(self.refused("truncate", "true"));
                }
                let [fast, slow] = YARN_TURNS.map(|turns| Some(Decimal::whole(turns)));
                let slow = above("beta_slow", Decimal::ZERO, slow)?;
                let fast = above("beta_fast", slow, fast)?;
                let attention = self.yarn_attention()?;
                RotaryScaling::Yarn { factor, fast, slow, positions: self.positions()?, attention }
            }
        })
    }

    fn yarn_attention(&self) -> Result<YarnAttention> {
        if self.get("attention_factor").is_some() {
            let own = self.decimal("attention_factor", None).ok();
            let own = own.filter(|own| !own.is_zero() && *own <= Decimal::whole(16));
            let expected = "a number from 10^-6 to 16";
            return Ok(YarnAttention::Factor(own.ok_or_else(|| self.refused("attention_factor", expected))?));
        }
        let above = self.decimal("mscale", Some(Decimal::ZERO))?;
        let below = self.decimal("mscale_all_dim", Some(Decimal::ZERO))?;
        let both = !above.is_zero() && !below.is_zero();
        Ok(YarnAttention::Logarithm(if both { [above, below] } else { [Decimal::ONE, Decimal::ZERO] }))
    }
}

impl Rotary {
    pub(super) fn take(fields: &mut Fields<'_>) -> Result<Self> {
        Ok(Self {
            rope_theta: fields.take("rope_theta")?,
            rope_scaling: fields.take("rope_scaling")?,
            rope_parameters: fields.take("rope_parameters")?,
            partial_rotary_factor: fields.take(PART)?,
            original_max_position_embeddings: fields.take("original_max_position_embeddings")?,
        })
    }

    /// Base and scaling, from any field; contradictions are refused. `positions` are the model's.
    pub(super) fn angles(self, positions: usize) -> Result<Angles> {
        require("partial_rotary_factor", self.partial_rotary_factor, 1.0)?;
        self.angles_of_part(positions)
    }

    /// Angles of layers with a window, and of the others, of models with parameters for each kind of layer.
    pub(super) fn angles_of_kinds(
        mut self,
        local_base: Option<f64>,
        positions: usize,
    ) -> Result<[Angles; 2]> {
        let [local, global] = ["sliding_attention", "full_attention"].map(|kind| {
            self.rope_parameters
                .as_mut()
                .and_then(|given| given.remove(kind))
                .filter(|given| !given.is_null())
        });
        let of = |given: Option<Value>, theta: f64, scaling: Option<Map<String, Value>>| -> Result<Angles> {
            let rope_parameters = match given {
                None => Map::new(),
                Some(Value::Object(given)) => given,
                Some(other) => {
                    return Err(unsupported("rope_parameters", other, "an object for each kind of layer"));
                }
            };
            let theta = Some(theta).filter(|_| !rope_parameters.contains_key("rope_theta"));
            let rotary = Self {
                rope_theta: theta,
                rope_scaling: scaling,
                rope_parameters: Some(rope_parameters),
                partial_rotary_factor: None,
                original_max_position_embeddings: self.original_max_position_embeddings,
            };
            rotary.angles(positions)
        };
        if let Some(rest) = self.rope_parameters.take().filter(|given| !given.is_empty()) {
            let expected = "only sliding_attention and full_attention";
            return Err(unsupported("rope_parameters", Value::Object(rest), expected));
        }
        require(PART, self.partial_rotary_factor, 1.0)?;
        Ok([
            of(local, local_base.unwrap_or(BASE), None)?,
            of(global, self.rope_theta.unwrap_or(1e6), self.rope_scaling.take())?,
        ])
    }

    /// Sets the base, unless a field does.
    pub(super) fn set_default_base(&mut self, base: f64) {
        let fields = [&self.rope_parameters, &self.rope_scaling];
        let is_given = |given: &Map<String, Value>| given.get("rope_theta").is_some_and(|own| !own.is_null());
        if self.rope_theta.is_none() && !fields.into_iter().flatten().any(is_given) {
            self.rope_theta = Some(base);
        }
    }

    /// Removes the rotated share of each head, and returns it if it is less than all.
    pub(super) fn take_part(&mut self) -> Result<Option<f64>> {
        let mut found = self.partial_rotary_factor.take();
        for (field, given) in
            [("rope_parameters", &mut self.rope_parameters), ("rope_scaling", &mut self.rope_scaling)]
        {
            let own = given.as_mut().and_then(|given| given.remove(PART)).filter(|own| !own.is_null());
            let Some(own) = own else { continue };
            let part = own.as_f64().filter(|own| found.is_none_or(|found| found == *own));
            found = Some(part.ok_or_else(|| unsupported(field, format!("{PART} {own}"), "one number"))?);
        }
        match found {
            Some(part) if part <= 0.0 || part > 1.0 => {
                Err(unsupported(PART, part, "a number above 0, at most 1"))
            }
            found => Ok(found.filter(|part| *part < 1.0)),
        }
    }

    fn angles_of_part(self, positions: usize) -> Result<Angles> {
        let positions = u32::try_from(positions).unwrap_or(u32::MAX);
        let positions = self.original_max_position_embeddings.unwrap_or(positions);
        let mut theta = self.rope_theta;
        let mut scaling = RotaryScaling::Default;
        let fields = [("rope_parameters", self.rope_parameters), ("rope_scaling", self.rope_scaling)];
        for (field, given) in fields {
            let given = &given.unwrap_or_default();
            let own = Parameters { field, given, positions }.scaling()?;
            if own != RotaryScaling::Default {
                ensure!(
                    scaling == RotaryScaling::Default || scaling == own,
                    "config: {field} = {}, expected the scaling in rope_parameters",
                    Value::Object(given.clone())
                );
                scaling = own;
            }
            let own = given.get("rope_theta").and_then(Value::as_f64);
            if let (Some(own), Some(other)) = (own, theta.filter(|other| Some(*other) != own)) {
                return Err(unsupported("rope_theta", other, format!("{own} as in {field}")));
            }
            theta = own.or(theta);
        }
        let theta = theta.unwrap_or(BASE);
        if theta.fract() != 0.0 || !(2.0..=2f64.powi(32)).contains(&theta) {
            return Err(unsupported("rope_theta", theta, "a whole number from 2 to 2^32"));
        }
        Ok(Angles { base: theta as u64, scaling })
    }
}
