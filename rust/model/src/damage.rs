//! Reasons to refuse weights that the library's errors lack: tensor, sizes, or other format.

use safetensors::tensor::TensorInfo;
use safetensors::{SafeTensorError, SafeTensors};
use serde_json::{Map, Value};

use crate::config::plain;
use crate::loader::MAX_HEADER_BYTES;

const LENGTH: usize = 8;

/// Longest quoted part of a header, in characters.
const QUOTED: usize = 100;

/// Format of bytes that cannot begin a safetensors file, and advice. Such a file has a little-endian length, at most
/// [`MAX_HEADER_BYTES`], in eight bytes, then a JSON object.
pub(crate) fn foreign(bytes: &[u8]) -> Option<&'static str> {
    let length = bytes.iter().take(LENGTH).rev().fold(0, |all, byte| all << 8 | u64::from(*byte));
    if length <= MAX_HEADER_BYTES && bytes.get(LENGTH).is_none_or(|byte| *byte == b'{') {
        return None;
    }
    Some(match bytes {
        [0x80, 2..=5, ..] => "a PyTorch file (a pickle): convert it to safetensors",
        _ => "not a safetensors file: convert the weights to safetensors in FP16, BF16 or FP32",
    })
}

/// Fault of a file that the library refuses with `error`.
pub(crate) fn reason(bytes: &[u8], error: &SafeTensorError) -> String {
    fault(bytes).unwrap_or_else(|| error.to_string())
}

/// First fault of the header that can be named.
fn fault(bytes: &[u8]) -> Option<String> {
    let length = u64::from_le_bytes(*bytes.first_chunk()?);
    let rest = &bytes[LENGTH..];
    let Some(header) = usize::try_from(length).ok().and_then(|length| rest.get(..length)) else {
        return Some(format!("expected a header of {length} bytes, found {}", rest.len()));
    };
    let tensors: Map<String, Value> = serde_json::from_slice(header).ok()?;
    let mut end = 0;
    for (name, value) in tensors.iter().filter(|(name, _)| *name != "__metadata__") {
        let info: TensorInfo = match serde_json::from_value(value.clone()) {
            Ok(info) => info,
            Err(error) => {
                let quoted: String = value.to_string().chars().take(QUOTED).collect();
                return Some(format!("tensor {name} = {quoted}: {}", plain(&error)));
            }
        };
        let (start, stop) = info.data_offsets;
        let elements = info.shape.iter().try_fold(1usize, |all, size| all.checked_mul(*size));
        let bits = elements.and_then(|elements| elements.checked_mul(info.dtype.bitsize()));
        let stored = stop.checked_sub(start).and_then(|bytes| bytes.checked_mul(8));
        if bits.is_none() || bits != stored {
            return Some(format!(
                "tensor {name}: data_offsets = [{start}, {stop}] do not fit dtype {:?} and shape {:?}",
                info.dtype, info.shape
            ));
        }
        end = end.max(stop);
    }
    let expected = end.checked_add(LENGTH)?.checked_add(header.len())?;
    let incomplete =
        matches!(SafeTensors::read_metadata(bytes), Err(SafeTensorError::MetadataIncompleteBuffer));
    incomplete.then(|| format!("expected {expected} bytes, found {}", bytes.len()))
}
