//! Base of the rotary embedding, from earlier and later fields of `transformers`. Scaled angles, angles that differ
//! between layers, and partly rotated heads are refused.

use ndp_files::Result;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{require, unsupported};

/// Base without a field.
const BASE: f64 = 10_000.0;

#[derive(Debug, Deserialize)]
pub(super) struct Rotary {
    rope_theta: Option<f64>,
    rope_scaling: Option<Map<String, Value>>,
    rope_parameters: Option<Map<String, Value>>,
    partial_rotary_factor: Option<f64>,
}

impl Rotary {
    /// The base, from any field; contradictions are refused.
    pub(super) fn base(self) -> Result<u64> {
        require("partial_rotary_factor", self.partial_rotary_factor, 1.0)?;
        let mut theta = self.rope_theta;
        let fields = [("rope_parameters", self.rope_parameters), ("rope_scaling", self.rope_scaling)];
        for (field, parameters) in fields {
            let parameters = parameters.unwrap_or_default();
            let given = || parameters.iter().filter(|(_, value)| !value.is_null());
            if let Some((_, kind)) =
                given().find(|(key, kind)| matches!(key.as_str(), "rope_type" | "type") && *kind != "default")
            {
                return Err(unsupported(field, kind.as_str().unwrap_or(&kind.to_string()), "default"));
            }
            let known = |(key, value): (&String, &Value)| match key.as_str() {
                "rope_type" | "type" | "original_max_position_embeddings" => true,
                "rope_theta" => value.is_number(),
                "factor" | "partial_rotary_factor" => value.as_f64() == Some(1.0),
                _ => false,
            };
            if !given().all(known) {
                let expected = "no other keys than rope_theta and rope_type = default, for all layers alike";
                return Err(unsupported(field, Value::Object(parameters), expected));
            }
            let own = parameters.get("rope_theta").and_then(Value::as_f64);
            if let (Some(own), Some(other)) = (own, theta.filter(|other| Some(*other) != own)) {
                return Err(unsupported("rope_theta", other, format!("{own} as in {field}")));
            }
            theta = own.or(theta);
        }
        let theta = theta.unwrap_or(BASE);
        if theta.fract() != 0.0 || !(2.0..=2f64.powi(32)).contains(&theta) {
            return Err(unsupported("rope_theta", theta, "a whole number from 2 to 2^32"));
        }
        Ok(theta as u64)
    }
}
