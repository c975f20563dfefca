//! The numbers, in the order of the paper's figures.

use super::*;
use crate::figures::measured::Skewed;
use crate::figures::{Item, at_least, at_most, contradicted, item, known, missing};

/// Contradiction of absolute times on PC-High.
const STATES: &str = "OPT-30B takes 600 ms with llama.cpp in Fig. 3 and 55 ms with PowerInfer in Fig. 18 (45 ms / 0.82), but 909 and 83 ms in Table 8: \
     the machine was in another state, about 1.5 times as slow";
/// Contradiction of PowerInfer's rate for OPT-30B.
const FASTEST: &str = "82 % of an A100 that takes 45 ms are 18.2 tokens/s for OPT-30B, Table 8 has 12.0, and the greatest of Fig. 10 is 16.06";
/// Contradiction of the steps of Falcon-40B.
const FALCON_FULL: &str = "attention, predictors (Table 6) and head of Falcon-40B take all of the GPU's memory, so no neurons of its MLP fit, hot ones or \
     any: +Policy cannot be 1.5 times as fast as +Engine";
/// Contradiction of LLaMA(ReGLU)-13B with llama.cpp.
const MOST_FITS: &str = "with 26 GB of weights and 24 GiB of GPU memory 3 GB are on the host; 600 ms for the 37 GB of OPT-30B there (Fig. 3a) make 50 ms a \
     token, Table 4 has 195";

/// Contradiction of Bamboo-7B's activity.
const SPARSE: &str = "Table 3 has 90 % of inactive neurons for Bamboo-7B, section 8.3.2 has 80 to 86 %";

/// All of them.
pub const ITEMS: &[Item] = &[
    item("section 2.2", "llama.cpp, OPT-30B, a token", "ms", 600.0, |s| {
        OPT_30B.token_ms(s, Policy::LlamaCpp)
    }),
    item("section 2.2", "vLLM on an A100, OPT-30B, a token", "ms", 45.0, |s| {
        Case { system: "a100-80gb", ..OPT_30B }.token_ms(s, Policy::VLlm)
    }),
    item("section 2.2", "OPT-30B's layers on the GPU with llama.cpp", "%", 37.0, |s| {
        load(s, OPT_30B, Policy::LlamaCpp)
    }),
    item("Fig. 3b", "llama.cpp's time on the host", "%", 98.0, |s| {
        let token = OPT_30B.run(s, Policy::LlamaCpp)?.token;
        Ok(100.0 * token.ns_waiting_for(Device::Host) / token.ns())
    }),
    at_least(item("Fig. 3b", "FlexGen's time on the bus, OPT-30B", "%", 99.5, |s| {
        let token = OPT_30B.run(s, Policy::FlexGen)?.token;
        Ok(100.0 * token.busy_ns(Device::Bus) / token.ns())
    })),
    item(
        "Fig. 4a",
        "neurons of a block with 80 % of the activations, OPT-30B, synthetic trace",
        "%",
        26.0,
        |_| Ok(100.0 * Skewed::Opt.skew().block),
    ),
    item(
        "Fig. 4a",
        "neurons of a block with 80 % of the activations, LLaMA2(ReGLU)-70B, synthetic trace",
        "%",
        43.0,
        |_| Ok(100.0 * Skewed::ReGlu.skew().block),
    ),
    item(
        "Fig. 4a",
        "neurons of a block with 80 % of the activations, LLaMA2(SwiGLU)-70B, synthetic trace",
        "%",
        69.0,
        |_| Ok(100.0 * Skewed::SwiGlu.skew().block),
    ),
    item(
        "Fig. 4b",
        "neurons of the model with 80 % of the activations, OPT-30B, synthetic trace",
        "%",
        17.0,
        |_| Ok(100.0 * Skewed::Opt.skew().model),
    ),
    item(
        "Fig. 4b",
        "neurons of the model with 80 % of the activations, LLaMA2(ReGLU)-70B, synthetic trace",
        "%",
        26.0,
        |_| Ok(100.0 * Skewed::ReGlu.skew().model),
    ),
    item(
        "Fig. 4b",
        "neurons of the model with 80 % of the activations, LLaMA2(SwiGLU)-70B, synthetic trace",
        "%",
        75.0,
        |_| Ok(100.0 * Skewed::SwiGlu.skew().model),
    ),
    at_most(item(
        "Fig. 5a",
        "active neurons of OPT-30B's first 24 layers, synthetic trace",
        "%",
        1.0,
        |_| Ok(100.0 * Skewed::Opt.skew().first_half),
    )),
    missing(
        "Fig. 5b",
        "overlap of the most active 20 % of the neurons between tasks",
        "%",
        90.0,
        "needs a model and texts of several domains",
    ),
    item(
        "Fig. 6a",
        "vectors from which copying is faster, 10 % of the MLP of OPT-30B",
        "vectors",
        32.0,
        |s| crossover(s, 0.1, BlockKind::Mlp),
    ),
    item(
        "Fig. 6b",
        "vectors from which copying is faster, 60 % of attention of OPT-30B",
        "vectors",
        32.0,
        |s| crossover(s, 0.6, BlockKind::Attention),
    ),
    missing(
        "section 5.1",
        "accuracy of a predictor of 480 MB",
        "%",
        92.0,
        "needs a model and trained predictors",
    ),
    missing(
        "section 5.1",
        "accuracy of a predictor of 320 MB",
        "%",
        84.0,
        "needs a model and trained predictors",
    ),
    missing(
        "section 5.1",
        "predictors of fixed size for OPT-175B",
        "GB",
        27.0,
        "the paper does not give their size",
    ),
    item("section 5.2", "neuron tables of OPT-175B, 16 bits for each neuron of the MLP", "MB", 9.0, |_| {
        let model = LlmShape::preset("opt-175b")?;
        Ok(2e-6 * f64::from(model.layers()) * f64::from(model.ffn()))
    }),
    item("section 5.2", "OPT-175B, FP16", "GB", 350.0, |_| {
        Ok(case("pc-high", "opt-175b").work()?.weight_bytes() / 1e9)
    }),
    known(
        item("section 1", "price of an RTX 4090, about", "USD", 2000.0, |_| price("pc-high")),
        "NVIDIA's list price of 2022-10; the paper seems to have a shop's",
    ),
    item("section 1", "price of an A100, about", "USD", 20_000.0, |_| price("a100-80gb")),
    item("section 1", "OPT-66B, 4 bits", "GB", 40.0, |_| {
        Ok(case("pc-high", "opt-66b").int4().work()?.weight_bytes() / 1e9)
    }),
    missing(
        "section 6.3.3",
        "time of the solver",
        "s",
        10.0,
        "a measurement of the placement solver, not of this model",
    ),
    item("section 8.2", "active neurons of OPT-30B, heads and MLP", "% of the bytes", 20.0, |s| {
        let run = OPT_30B.run(s, Policy::PowerInfer)?;
        let read = |name| run.token.bytes_of(name, Device::Gpu) + run.token.bytes_of(name, Device::Host);
        Ok(100.0 * (read("attention") + read("MLP")) / OPT_30B.work()?.layer_bytes())
    }),
    item("Fig. 10", "PowerInfer, PC-High, FP16, mean", "tokens/s", 8.32, |s| mean(&high(), powerinfer(s))),
    contradicted(
        item("Fig. 10", "PowerInfer, PC-High, FP16, greatest", "tokens/s", 16.06, |s| {
            greatest(&high(), powerinfer(s))
        }),
        FASTEST,
    ),
    item("Fig. 10", "PowerInfer over llama.cpp, PC-High, FP16, mean", "x", 7.23, |s| {
        mean(&high(), over(s, Policy::LlamaCpp))
    }),
    item("Fig. 10", "PowerInfer over SpecInfer, PC-High, FP16, mean", "x", 6.19, |s| {
        mean(&high(), over(s, Policy::SpecInfer))
    }),
    item("Fig. 10", "PowerInfer over llama.cpp, Falcon-40B", "x", 11.69, |s| {
        FALCON.over(s, Policy::LlamaCpp)
    }),
    at_least(item("section 8.2", "SpecInfer's time on the bus", "%", 95.0, |s| {
        let token = OPT_30B.run(s, Policy::SpecInfer)?.token;
        Ok(100.0 * token.ns_waiting_for(Device::Bus) / token.ns())
    })),
    item("Fig. 11", "PowerInfer over llama.cpp, PC-Low, FP16, mean", "x", 4.71, |s| {
        mean(&low(), over(s, Policy::LlamaCpp))
    }),
    item("Fig. 11", "PowerInfer over llama.cpp, PC-Low, FP16, greatest", "x", 7.06, |s| {
        greatest(&low(), over(s, Policy::LlamaCpp))
    }),
    item("Fig. 11", "PowerInfer over SpecInfer, PC-Low, FP16, mean", "x", 5.97, |s| {
        mean(&low(), over(s, Policy::SpecInfer))
    }),
    item("Fig. 11", "PowerInfer over SpecInfer, PC-Low, FP16, greatest", "x", 7.47, |s| {
        greatest(&low(), over(s, Policy::SpecInfer))
    }),
    item("Fig. 12a", "work on the GPU with llama.cpp, PC-High, mean", "%", 20.0, |s| {
        mean(&HIGH, |model| load(s, case("pc-high", model), Policy::LlamaCpp))
    }),
    item("Fig. 12a", "work on the GPU with PowerInfer, PC-High, mean", "%", 70.0, |s| {
        mean(&HIGH, |model| load(s, case("pc-high", model), Policy::PowerInfer))
    }),
    item("Fig. 12b", "work on the GPU with PowerInfer, OPT-30B on PC-Low", "%", 42.0, |s| {
        load(s, case("pc-low", "opt-30b"), Policy::PowerInfer)
    }),
    item("section 8.2", "PowerInfer over llama.cpp, 8 tokens out, least", "x", 1.07, |s| {
        least(
            &[
                grid("pc-high", &HIGH, WeightFormat::Fp16, &[8]),
                grid("pc-low", &LOW, WeightFormat::Fp16, &[8]),
            ]
            .concat(),
            over(s, Policy::LlamaCpp),
        )
    }),
    item("section 8.2", "PowerInfer over llama.cpp, 8 tokens out, greatest", "x", 4.0, |s| {
        greatest(
            &[
                grid("pc-high", &HIGH, WeightFormat::Fp16, &[8]),
                grid("pc-low", &LOW, WeightFormat::Fp16, &[8]),
            ]
            .concat(),
            over(s, Policy::LlamaCpp),
        )
    }),
    contradicted(
        item("Table 4", "llama.cpp, LLaMA(ReGLU)-13B, 1,536 in and 256 out", "s", 49.91, |s| {
            long_prompt("llama2-13b").seconds(s, Policy::LlamaCpp)
        }),
        MOST_FITS,
    ),
    item("Table 4", "PowerInfer, LLaMA(ReGLU)-13B, 1,536 in and 256 out", "s", 14.38, |s| {
        long_prompt("llama2-13b").seconds(s, Policy::PowerInfer)
    }),
    contradicted(
        item("Table 4", "PowerInfer over llama.cpp, LLaMA(ReGLU)-13B", "x", 3.47, |s| {
            long_prompt("llama2-13b").over(s, Policy::LlamaCpp)
        }),
        MOST_FITS,
    ),
    item("Table 4", "llama.cpp, Falcon-40B, 1,536 in and 256 out", "s", 321.63, |s| {
        long_prompt("falcon-40b").seconds(s, Policy::LlamaCpp)
    }),
    item("Table 4", "PowerInfer, Falcon-40B, 1,536 in and 256 out", "s", 56.48, |s| {
        long_prompt("falcon-40b").seconds(s, Policy::PowerInfer)
    }),
    item("Table 4", "PowerInfer over llama.cpp, Falcon-40B", "x", 5.69, |s| {
        long_prompt("falcon-40b").over(s, Policy::LlamaCpp)
    }),
    item("Table 4", "llama.cpp, LLaMA(ReGLU)-70B, INT4, 1,536 in and 256 out", "s", 92.76, |s| {
        long_prompt("llama2-70b").int4().seconds(s, Policy::LlamaCpp)
    }),
    item("Table 4", "PowerInfer, LLaMA(ReGLU)-70B, INT4, 1,536 in and 256 out", "s", 37.17, |s| {
        long_prompt("llama2-70b").int4().seconds(s, Policy::PowerInfer)
    }),
    item("Table 4", "PowerInfer over llama.cpp, LLaMA(ReGLU)-70B, INT4", "x", 2.50, |s| {
        long_prompt("llama2-70b").int4().over(s, Policy::LlamaCpp)
    }),
    item("Fig. 13", "PowerInfer, PC-High, INT4, mean", "tokens/s", 13.2, |s| {
        mean(&high_int4(), powerinfer(s))
    }),
    item("Fig. 13", "PowerInfer, PC-High, INT4, greatest", "tokens/s", 29.08, |s| {
        greatest(&high_int4(), powerinfer(s))
    }),
    item("Fig. 13", "PowerInfer over llama.cpp, PC-High, INT4, mean", "x", 2.89, |s| {
        mean(&high_int4(), over(s, Policy::LlamaCpp))
    }),
    contradicted(
        item("Fig. 13", "PowerInfer over llama.cpp, PC-High, INT4, greatest", "x", 4.28, |s| {
            greatest(&high_int4(), over(s, Policy::LlamaCpp))
        }),
        "the abstract has 8.00x on an RTX 4090, section 8.2 has 4.28x there and 8.00x on PC-Low",
    ),
    item("Fig. 13", "PowerInfer over llama.cpp, PC-Low, INT4, mean", "x", 5.01, |s| {
        mean(&low_int4(), over(s, Policy::LlamaCpp))
    }),
    item("Fig. 13", "PowerInfer over llama.cpp, PC-Low, INT4, greatest", "x", 8.0, |s| {
        greatest(&low_int4(), over(s, Policy::LlamaCpp))
    }),
    item("section 8.2", "PowerInfer, OPT-175B, INT4, PC-High", "tokens/s", 2.0, |s| {
        case("pc-high", "opt-175b").int4().rate(s, Policy::PowerInfer)
    }),
    item("section 8.2", "PowerInfer over llama.cpp, OPT-175B, INT4, PC-High", "x", 2.66, |s| {
        case("pc-high", "opt-175b").int4().over(s, Policy::LlamaCpp)
    }),
    item("Fig. 14", "PowerInfer over llama.cpp, Falcon-40B, mean over batches below 32", "x", 6.08, |s| {
        mean(&BATCHES, |batch| Case { batch, ..FALCON }.over(s, Policy::LlamaCpp))
    }),
    item("Fig. 14", "PowerInfer over llama.cpp, Falcon-40B, batch 32", "x", 4.38, |s| {
        Case { batch: 32, ..FALCON }.over(s, Policy::LlamaCpp)
    }),
    item("Fig. 15", "+PO over llama.cpp, Falcon-40B on PC-High", "x", 3.32, |s| {
        step(s, FALCON, Policy::PowerInferOperators)
    }),
    contradicted(
        item("Fig. 15", "+Engine over llama.cpp, Falcon-40B on PC-High", "x", 7.80, |s| {
            step(s, FALCON, Policy::PowerInferEngine)
        }),
        FALCON_FULL,
    ),
    contradicted(
        item("Fig. 15", "+Policy over llama.cpp, Falcon-40B on PC-High", "x", 11.69, |s| {
            step(s, FALCON, Policy::PowerInfer)
        }),
        FALCON_FULL,
    ),
    item("Fig. 15", "+PO over llama.cpp, Bamboo-7B on PC-Low", "x", 1.87, |s| {
        step(s, BAMBOO, Policy::PowerInferOperators)
    }),
    item("Fig. 15", "+Engine over llama.cpp, Bamboo-7B on PC-Low", "x", 2.60, |s| {
        step(s, BAMBOO, Policy::PowerInferEngine)
    }),
    item("Fig. 15", "+Policy over llama.cpp, Bamboo-7B on PC-Low", "x", 3.62, |s| {
        step(s, BAMBOO, Policy::PowerInfer)
    }),
    contradicted(
        item("Table 5", "a token of Bamboo-7B on PC-Low, mean, STEM", "ms", 38.05, |s| {
            BAMBOO.token_ms(s, Policy::PowerInfer)
        }),
        SPARSE,
    ),
    contradicted(
        item("Table 5", "a token of Bamboo-7B on PC-Low, mean, HumanEval", "ms", 36.71, |s| {
            BAMBOO.token_ms(s, Policy::PowerInfer)
        }),
        SPARSE,
    ),
    contradicted(
        item("Table 5", "a token of Bamboo-7B on PC-Low, mean, Roleplay", "ms", 37.08, |s| {
            BAMBOO.token_ms(s, Policy::PowerInfer)
        }),
        SPARSE,
    ),
    contradicted(
        item("Table 5", "a token of Bamboo-7B on PC-Low, mean, Table-Extraction", "ms", 37.42, |s| {
            BAMBOO.token_ms(s, Policy::PowerInfer)
        }),
        SPARSE,
    ),
    contradicted(
        item("Table 5", "a token of Bamboo-7B on PC-Low, 95th percentile, STEM", "ms", 40.75, dense_token_ms),
        SPARSE,
    ),
    contradicted(
        item(
            "Table 5",
            "a token of Bamboo-7B on PC-Low, 95th percentile, HumanEval",
            "ms",
            40.48,
            dense_token_ms,
        ),
        SPARSE,
    ),
    contradicted(
        item(
            "Table 5",
            "a token of Bamboo-7B on PC-Low, 95th percentile, Roleplay",
            "ms",
            40.61,
            dense_token_ms,
        ),
        SPARSE,
    ),
    contradicted(
        item(
            "Table 5",
            "a token of Bamboo-7B on PC-Low, 95th percentile, Table-Extraction",
            "ms",
            40.74,
            dense_token_ms,
        ),
        SPARSE,
    ),
    missing(
        "Table 5",
        "a token of Bamboo-7B on PC-Low, 99th percentile, STEM",
        "ms",
        42.33,
        "needs the distribution of sparsity over tokens, of which the paper gives the limits",
    ),
    missing(
        "Table 5",
        "a token of Bamboo-7B on PC-Low, 99th percentile, HumanEval",
        "ms",
        42.37,
        "needs the distribution of sparsity over tokens, of which the paper gives the limits",
    ),
    missing(
        "Table 5",
        "a token of Bamboo-7B on PC-Low, 99th percentile, Roleplay",
        "ms",
        43.87,
        "needs the distribution of sparsity over tokens, of which the paper gives the limits",
    ),
    missing(
        "Table 5",
        "a token of Bamboo-7B on PC-Low, 99th percentile, Table-Extraction",
        "ms",
        42.93,
        "needs the distribution of sparsity over tokens, of which the paper gives the limits",
    ),
    item("section 8.3.2", "95th percentile over mean, Bamboo-7B on PC-Low", "x", 1.1, |s| {
        Ok(dense_token_ms(s)? / BAMBOO.token_ms(s, Policy::PowerInfer)?)
    }),
    missing(
        "Fig. 16",
        "sparsity from which PyTorch's sparse operator beats the dense one on the CPU",
        "%",
        87.0,
        "a property of that library",
    ),
    at_most(item(
        "Fig. 16",
        "sparsity from which PowerInfer's operator beats the dense one on the CPU",
        "%",
        10.0,
        |s| Ok(100.0 - 100.0 * s.assumptions().get(Key::HostBandwidth) / s.assumptions().get(Key::HostDense)),
    )),
    at_most(item("Fig. 17", "time of predictors on PC-Low, mean", "%", 10.0, predictor_share)),
    missing(
        "Table 6",
        "parameters of the predictors, OPT-13B",
        "billions",
        0.88,
        "the result of training them; an input of the policies",
    ),
    item("Table 6", "predictors over the model, OPT-13B", "%", 6.71, |_| predictor_ratio("opt-13b", 0.88)),
    missing(
        "Table 6",
        "parameters of the predictors, OPT-66B",
        "billions",
        3.23,
        "the result of training them; an input of the policies",
    ),
    item("Table 6", "predictors over the model, OPT-66B", "%", 4.88, |_| predictor_ratio("opt-66b", 3.23)),
    missing(
        "Table 6",
        "parameters of the predictors, Falcon(ReLU)-40B",
        "billions",
        3.63,
        "the result of training them; an input of the policies",
    ),
    item("Table 6", "predictors over the model, Falcon(ReLU)-40B", "%", 8.68, |_| {
        predictor_ratio("falcon-40b", 3.63)
    }),
    missing(
        "Table 6",
        "parameters of the predictors, LLaMA(ReGLU)-70B",
        "billions",
        5.66,
        "the result of training them; an input of the policies",
    ),
    item("Table 6", "predictors over the model, LLaMA(ReGLU)-70B", "%", 8.08, |_| {
        predictor_ratio("llama2-70b", 5.66)
    }),
    contradicted(
        item("section 8.3.4", "predictors over the model, mean", "%", 7.09, |_| mean_predictor_ratio()),
        "section 5.1 has 6 %, section 8.3.4 has 7.09 %",
    ),
    item("Fig. 18a", "llama.cpp on PC-High behind vLLM on an A100, OPT-30B, 1 token in", "%", 93.0, |s| {
        behind(s, generation("opt-30b"), Policy::LlamaCpp)
    }),
    contradicted(
        item("Fig. 18a", "PowerInfer's rate over vLLM's on an A100, OPT-30B, 1 token in", "%", 82.0, |s| {
            Ok(100.0 - behind(s, generation("opt-30b"), Policy::PowerInfer)?)
        }),
        FASTEST,
    ),
    contradicted(
        item("Fig. 18b", "PowerInfer's rate over vLLM's on an A100, OPT-30B, 64 tokens in", "%", 72.0, |s| {
            Ok(100.0 - behind(s, case("pc-high", "opt-30b"), Policy::PowerInfer)?)
        }),
        FASTEST,
    ),
    item("Fig. 18a", "llama.cpp on PC-High behind vLLM on an A100, Falcon-40B, 1 token in", "%", 92.0, |s| {
        behind(s, generation("falcon-40b"), Policy::LlamaCpp)
    }),
    item("Fig. 18a", "PowerInfer's rate over vLLM's on an A100, Falcon-40B, 1 token in", "%", 77.0, |s| {
        Ok(100.0 - behind(s, generation("falcon-40b"), Policy::PowerInfer)?)
    }),
    item("Fig. 18b", "PowerInfer's rate over vLLM's on an A100, Falcon-40B, 64 tokens in", "%", 71.0, |s| {
        Ok(100.0 - behind(s, case("pc-high", "falcon-40b"), Policy::PowerInfer)?)
    }),
    missing(
        "Table 7",
        "mean accuracy with PowerInfer less the one without, OPT-7B",
        "percentage points",
        -0.02,
        "needs the model and its tasks, as all numbers of this table do",
    ),
    missing(
        "Table 7",
        "mean accuracy with PowerInfer less the one without, OPT-13B",
        "percentage points",
        0.27,
        "needs the model and its tasks, as all numbers of this table do",
    ),
    missing(
        "Table 7",
        "mean accuracy with PowerInfer less the one without, LLaMA(ReGLU)-13B",
        "percentage points",
        -0.94,
        "needs the model and its tasks, as all numbers of this table do",
    ),
    missing(
        "Table 7",
        "mean accuracy with PowerInfer less the one without, Falcon-40B",
        "percentage points",
        -0.28,
        "needs the model and its tasks, as all numbers of this table do",
    ),
    missing(
        "Table 7",
        "mean accuracy with PowerInfer less the one without, LLaMA(ReGLU)-70B",
        "percentage points",
        -0.42,
        "needs the model and its tasks, as all numbers of this table do",
    ),
    contradicted(
        item("Table 8", "PowerInfer, Yi(SwiGLU)-34B, PC-High", "tokens/s", 1.7, |s| {
            case("pc-high", "yi-34b").decode(s, Policy::PowerInfer)
        }),
        STATES,
    ),
    contradicted(
        item("Table 8", "llama.cpp, Yi(SwiGLU)-34B, PC-High", "tokens/s", 1.0, |s| {
            case("pc-high", "yi-34b").decode(s, Policy::LlamaCpp)
        }),
        STATES,
    ),
    item("Table 8", "PowerInfer over llama.cpp, Yi(SwiGLU)-34B, PC-High", "x", 1.7, |s| {
        Ok(case("pc-high", "yi-34b").decode(s, Policy::PowerInfer)?
            / case("pc-high", "yi-34b").decode(s, Policy::LlamaCpp)?)
    }),
    item("Table 8", "PowerInfer, LLaMA(SwiGLU)-2-13B, PC-Low", "tokens/s", 3.1, |s| {
        case("pc-low", "llama2-13b-swiglu").decode(s, Policy::PowerInfer)
    }),
    item("Table 8", "llama.cpp, LLaMA(SwiGLU)-2-13B, PC-Low", "tokens/s", 2.1, |s| {
        case("pc-low", "llama2-13b-swiglu").decode(s, Policy::LlamaCpp)
    }),
    item("Table 8", "PowerInfer over llama.cpp, LLaMA(SwiGLU)-2-13B, PC-Low", "x", 1.5, |s| {
        Ok(case("pc-low", "llama2-13b-swiglu").decode(s, Policy::PowerInfer)?
            / case("pc-low", "llama2-13b-swiglu").decode(s, Policy::LlamaCpp)?)
    }),
    contradicted(
        item("Table 8", "PowerInfer, OPT-30B, PC-High", "tokens/s", 12.0, |s| {
            case("pc-high", "opt-30b").decode(s, Policy::PowerInfer)
        }),
        STATES,
    ),
    contradicted(
        item("Table 8", "llama.cpp, OPT-30B, PC-High", "tokens/s", 1.1, |s| {
            case("pc-high", "opt-30b").decode(s, Policy::LlamaCpp)
        }),
        STATES,
    ),
    item("Table 8", "PowerInfer over llama.cpp, OPT-30B, PC-High", "x", 10.9, |s| {
        Ok(case("pc-high", "opt-30b").decode(s, Policy::PowerInfer)?
            / case("pc-high", "opt-30b").decode(s, Policy::LlamaCpp)?)
    }),
    missing("section 8.5", "accuracy of the predictors", "%", 95.0, "needs a model and trained predictors"),
    missing(
        "section 8.5",
        "effect of mispredictions on a layer's output, OPT-7B",
        "%",
        0.4,
        "needs the model",
    ),
    item("Table 9", "a token of Qwen1.5-4B, dense, in the GPU of PC-High", "ms", 10.83, |s| {
        case("pc-high", "qwen1.5-4b").token_ms(s, Policy::LlamaCpp)
    }),
    item("Table 9", "a token of Bamboo-7B with PowerInfer, PC-High", "ms", 11.85, |s| {
        case("pc-high", "bamboo-7b").token_ms(s, Policy::PowerInfer)
    }),
    item("Table 9", "a token of Bamboo-7B, dense, in the GPU of PC-High", "ms", 18.54, |s| {
        case("pc-high", "bamboo-7b").token_ms(s, Policy::LlamaCpp)
    }),
    missing(
        "Table 9",
        "mean accuracy, Qwen1.5-4B",
        "%",
        52.23,
        "needs the model and its tasks, as the table's single tasks do",
    ),
    missing(
        "Table 9",
        "mean accuracy, Bamboo-7B with PowerInfer",
        "%",
        65.65,
        "needs the model and its tasks, as the table's single tasks do",
    ),
    missing(
        "Table 9",
        "mean accuracy, Bamboo-7B, dense",
        "%",
        65.49,
        "needs the model and its tasks, as the table's single tasks do",
    ),
    contradicted(
        item("abstract", "speed-up with INT4, RTX 4090", "x", 8.0, |s| {
            greatest(&high_int4(), over(s, Policy::LlamaCpp))
        }),
        "section 8.2 has 4.28x on the RTX 4090; 8.00x is PC-Low's",
    ),
];
