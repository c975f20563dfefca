use super::*;
use ndp_files::said;
use ndp_numerics::{Decimal, SoftCap, YarnAttention};
use serde_json::json;

fn opt() -> Value {
    json!({
        "model_type": "opt", "architectures": ["OPTForCausalLM"], "vocab_size": 256, "hidden_size": 64,
        "num_hidden_layers": 2, "num_attention_heads": 4, "ffn_dim": 128, "max_position_embeddings": 32,
        "word_embed_proj_dim": 64, "do_layer_norm_before": true, "activation_function": "relu",
        "torch_dtype": "float16", "dropout": 0.1, "_remove_final_layer_norm": false
    })
}

fn llama() -> Value {
    json!({
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 300, "hidden_size": 64,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 176,
        "max_position_embeddings": 64, "hidden_act": "silu", "rms_norm_eps": 1e-5, "rope_theta": 500000.0,
        "rope_scaling": null, "torch_dtype": "bfloat16", "bos_token_id": 1
    })
}

fn falcon() -> Value {
    json!({
        "model_type": "falcon", "architectures": ["FalconForCausalLM"], "vocab_size": 300, "hidden_size": 64,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_kv_heads": 2, "new_decoder_architecture": true,
        "multi_query": true, "parallel_attn": true, "bias": false, "alibi": false, "layer_norm_epsilon": 1e-5
    })
}

fn parse(value: &Value) -> ndp_files::Result<DecoderConfig> {
    DecoderConfig::from_json(Path::new("config.json"), &value.to_string())
}

fn with(mut config: Value, field: &str, value: Value) -> Value {
    config[field] = value;
    config
}

#[test]
fn an_opt_checkpoint_s_configuration_is_read() {
    let config = parse(&opt()).unwrap();
    assert_eq!((config.architecture(), config.head_width(), config.ffn_dim()), (Architecture::Opt, 16, 128));
    assert!(!config.relu_before_qkv() && !config.is_gated() && config.rotary_base().is_none());
    assert!(parse(&with(opt(), "relu_before_qkv", json!(true))).unwrap().relu_before_qkv());
}

#[test]
fn a_llama_checkpoint_s_configuration_is_read() {
    let config = parse(&llama()).unwrap();
    assert_eq!((config.num_key_value_heads(), config.head_width(), config.key_width()), (2, 16, 32));
    assert_eq!((config.rotary_base(), config.norm_eps().units()), (Some(500_000), 10_000_000));
    assert_eq!((config.activation(), config.ffn_dim()), (Activation::Silu, 176));
    assert!(config.is_gated() && config.has_rms_norm() && !config.has_tied_head() && !config.is_parallel());
    let config = parse(&with(llama(), "head_dim", json!(24))).unwrap();
    assert_eq!((config.head_width(), config.query_width()), (24, 96));
    let mut new = with(llama(), "rope_parameters", json!({"rope_theta": 1e6, "rope_type": "default"}));
    new.as_object_mut().unwrap().remove("rope_theta");
    assert_eq!(parse(&new).unwrap().rotary_base(), Some(1_000_000));
    let mistral =
        with(with(llama(), "model_type", json!("mistral")), "architectures", json!(["MistralForCausalLM"]));
    assert_eq!(
        parse(&with(mistral, "sliding_window", json!(64))).unwrap().architecture(),
        Architecture::Llama
    );
    let mistral = with(llama(), "architectures", json!(["MistralForCausalLM"]));
    let mistral = with(with(mistral, "model_type", json!("mistral")), "max_position_embeddings", json!(8192));
    let mut unnamed = mistral.clone();
    unnamed.as_object_mut().unwrap().remove("model_type");
    unnamed.as_object_mut().unwrap().remove("num_key_value_heads");
    unnamed["num_attention_heads"] = json!(16);
    let limited = parse(&unnamed).unwrap();
    assert_eq!((limited.max_position_embeddings(), limited.num_key_value_heads()), (8192, 8));
    assert_eq!([limited.window(0), limited.window(1)], [Some(4096); 2]);
    limited.check_positions(8192).unwrap();
    assert_eq!(parse(&mistral).unwrap().window(1), Some(4096));
    let within = parse(&with(llama(), "sliding_window", json!(40))).unwrap();
    let refused = within.check_positions(41).unwrap_err().to_string();
    assert!(refused.contains("needs 41 positions, but the model supports 40 (sliding_window)"), "{refused}");
    let unlimited = parse(&with(mistral, "sliding_window", Value::Null)).unwrap();
    assert!(unlimited.window(0).is_none());
    assert_eq!(unlimited.max_position_embeddings(), 8192);
    let long = parse(&with(llama(), "max_position_embeddings", json!(131_072))).unwrap();
    assert_eq!(long.max_position_embeddings(), MAX_POSITIONS);
}

#[test]
fn a_falcon_checkpoint_s_configuration_is_read() {
    let config = parse(&falcon()).unwrap();
    assert_eq!((config.num_key_value_heads(), config.ffn_dim(), config.norms_per_layer()), (2, 256, 2));
    assert_eq!((config.rotary_base(), config.max_position_embeddings()), (Some(10_000), 2048));
    assert!(config.is_parallel() && !config.has_rms_norm() && config.has_tied_head());
    let old = parse(&with(falcon(), "new_decoder_architecture", json!(false))).unwrap();
    assert_eq!((old.num_key_value_heads(), old.norms_per_layer()), (1, 1));
}

#[test]
fn unsupported_options_are_refused_by_name() {
    for (base, field, value, expected) in [
        (
            opt(),
            "model_type",
            json!("gpt2"),
            "opt, llama, mistral, falcon, gemma, gemma2, gemma3_text, granite, mixtral, olmo2, phi3, qwen2, qwen3, qwen3_moe",
        ),
        (opt(), "architectures", json!(["GPT2LMHeadModel"]), "OPTForCausalLM or OPTModel"),
        (opt(), "architectures", json!(["LlamaForCausalLM"]), "OPTForCausalLM or OPTModel"),
        (opt(), "enable_bias", json!(false), "true"),
        (opt(), "layer_norm_elementwise_affine", json!(false), "true"),
        (opt(), "tie_word_embeddings", json!(false), "true"),
        (opt(), "activation_function", json!("gelu"), "relu"),
        (opt(), "word_embed_proj_dim", json!(0), "1..=2^32-1"),
        (opt(), "num_attention_heads", json!(5), "a divisor of hidden_size = 64"),
        (opt(), "num_attention_heads", json!(0), "1..=2^32-1"),
        (opt(), "vocab_size", json!(1u64 << 32), "1..=2^32-1"),
        (llama(), "hidden_act", json!("gelu"), "silu or relu"),
        (llama(), "rms_norm_eps", json!(1e-8), "a multiple of 1e-12 from 1e-6 to 1e-2"),
        (llama(), "rope_theta", json!(10000.5), "a whole number from 2 to 2^32"),
        (
            llama(),
            "rope_scaling",
            json!({"rope_type": "longrope", "factor": 8.0}),
            "default, linear, dynamic, llama3, yarn",
        ),
        (llama(), "partial_rotary_factor", json!(0.5), "1"),
        (llama(), "num_key_value_heads", json!(3), "a divisor of num_attention_heads = 4"),
        (llama(), "sliding_window", json!(0), "null, or at least 1"),
        (llama(), "is_causal", json!(false), "true"),
        (llama(), "layer_types", json!(["full_attention", "sliding_attention"]), "full_attention"),
        (llama(), "final_logit_softcapping", json!(30.0), "null"),
        (llama(), "attn_logit_softcapping", json!(50.0), "null"),
        (llama(), "query_pre_attn_scalar", json!(256), "null"),
        (llama(), "logits_scaling", json!(8.0), "1"),
        (llama(), "embedding_multiplier", json!(12.0), "1"),
        (llama(), "residual_multiplier", json!(0.22), "1"),
        (llama(), "num_local_experts", json!(8), "0"),
        (llama(), "bias", json!(true), "false"),
        (llama(), "pruned_heads", json!({"0": [1]}), "null"),
        (opt(), "logit_scale", json!(0.5), "1"),
        (falcon(), "apply_residual_connection_post_layernorm", json!(true), "false"),
        (falcon(), "partial_rotary_factor", json!(0.5), "1"),
        (
            falcon(),
            "rope_scaling",
            json!({"type": "ntk", "factor": 2.0}),
            "default, linear, dynamic, llama3, yarn",
        ),
        (llama(), "rope_parameters", json!({"rope_theta": 1e4}), "10000 as in rope_parameters"),
        (llama(), "intermediate_size", json!(0), "1..=2^32-1"),
        (llama(), "head_dim", json!(15), "even, at most 16384"),
        (falcon(), "num_kv_heads", json!(3), "a divisor of num_attention_heads = 4"),
        (falcon(), "num_kv_heads", json!(0), "1..=2^32-1"),
        (falcon(), "parallel_attn", json!(false), "true"),
        (falcon(), "activation", json!("silu"), "gelu or relu"),
        (falcon(), "num_ln_in_parallel_attn", json!(3), "1 or 2"),
        (falcon(), "tie_word_embeddings", json!(false), "true"),
    ] {
        let named = if expected.ends_with("rope_parameters") { "rope_theta" } else { field };
        let text = said(&parse(&with(base, field, value)));
        let named = text.starts_with(&format!("config: {named} = "));
        assert!(named && text.ends_with(&format!(", expected {expected}")), "{field}: {text}");
    }
}

#[test]
fn options_of_generation_are_warned_about_unless_they_have_no_effect() {
    let plain =
        parse(&with(with(opt(), "repetition_penalty", json!(1.0)), "suppress_tokens", json!([]))).unwrap();
    assert_eq!(plain.warnings(), [""; 0]);
    let other = parse(&with(with(opt(), "repetition_penalty", json!(1.2)), "min_length", json!(5))).unwrap();
    assert_eq!(
        other.warnings(),
        ["ignored, for the sampler does without them: min_length, repetition_penalty"]
    );
    let named = parse(&with(opt(), "architectures", json!("OPTForCausalLM"))).unwrap_err().to_string();
    assert!(named.contains("architectures") && named.contains("a list of names"), "{named}");
}

#[test]
fn a_key_that_stands_twice_is_refused() {
    let twice = opt().to_string().replacen('{', "{\"hidden_size\": 8, ", 1);
    let error = DecoderConfig::from_json(Path::new("config.json"), &twice).unwrap_err();
    assert!(error.root_cause().to_string().starts_with("the key 'hidden_size' appears twice"));
}

#[test]
fn rotary_options_that_are_not_understood_are_refused() {
    for options in [
        json!({"factor": 2.0}),
        json!({"rope_type": "default", "mrope_section": [16, 24, 24]}),
        json!({"rope_type": "default", "rope_theta": 5e5, "partial_rotary_factor": 0.5}),
        json!({"full_attention": {"rope_theta": 1e6, "rope_type": "default"},
            "sliding_attention": {"rope_theta": 1e4, "rope_type": "default"}}),
    ] {
        for field in ["rope_scaling", "rope_parameters"] {
            let refused = parse(&with(llama(), field, options.clone())).unwrap_err().to_string();
            let expected =
                "expected no other keys than rope_theta and rope_type = default, for all layers alike";
            assert_eq!(refused, format!("config: {field} = {options}, {expected}"));
        }
    }
    let harmless = json!({"type": "default", "factor": 1.0, "rope_theta": 5e5, "partial_rotary_factor": 1});
    assert_eq!(parse(&with(llama(), "rope_parameters", harmless)).unwrap().rotary_base(), Some(500_000));
    assert_eq!(parse(&with(llama(), "rope_scaling", json!({}))).unwrap().rotary_base(), Some(500_000));
}

#[test]
fn scaled_rotary_angles_are_read_from_both_spellings() {
    let llama3 = json!({
        "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192
    });
    let [factor, high] = [8, 4].map(Decimal::whole);
    let expected = RotaryScaling::Llama3 { factor, low: Decimal::ONE, high, positions: 8192 };
    for (field, kind) in
        [("rope_scaling", "type"), ("rope_scaling", "rope_type"), ("rope_parameters", "rope_type")]
    {
        let config = parse(&with(llama(), field, with(llama3.clone(), kind, json!("llama3")))).unwrap();
        assert_eq!((config.rotary_scaling, config.rotary_base), (expected, Some(500_000)));
        assert!(config.rotary(0).unwrap().is_some());
    }
    let of =
        |scaling: Value| parse(&with(llama(), "rope_scaling", scaling)).map(|config| config.rotary_scaling);
    let factor = Decimal::from_f64(2.5).unwrap();
    assert_eq!(of(json!({"type": "linear", "factor": 2.5})).unwrap(), RotaryScaling::Linear { factor });
    assert_eq!(of(json!({"type": "dynamic", "factor": 2.0})).unwrap(), RotaryScaling::Default);
    let yarn = |attention| RotaryScaling::Yarn {
        factor,
        fast: Decimal::whole(32),
        slow: Decimal::ONE,
        positions: 64,
        attention,
    };
    let one = Decimal::ONE;
    let logarithm = YarnAttention::Logarithm([one, Decimal::ZERO]);
    assert_eq!(of(json!({"type": "yarn", "factor": 2.5})).unwrap(), yarn(logarithm));
    let stated =
        json!({"type": "yarn", "factor": 2.5, "attention_factor": 1.0, "truncate": true, "mscale": 1.0});
    assert_eq!(of(stated).unwrap(), yarn(YarnAttention::Factor(one)));
    let both = json!({"type": "yarn", "factor": 2.5, "mscale": 1.0, "mscale_all_dim": 2.0});
    assert_eq!(of(both).unwrap(), yarn(YarnAttention::Logarithm([one, Decimal::whole(2)])));

    for (scaling, expected) in [
        (json!({"type": "linear"}), "factor = (absent), expected a number from 1 to 10^6"),
        (json!({"type": "linear", "factor": 0.5}), "factor = 0.5, expected a number from 1 to 10^6"),
        (
            with(with(llama3.clone(), "rope_type", json!("llama3")), "high_freq_factor", json!(1)),
            "high_freq_factor = 1, expected a number above 1, at most 10^6",
        ),
        (
            json!({"type": "llama3", "factor": 8}),
            "low_freq_factor = (absent), expected 0, or a number from 10^-6 to 10^6",
        ),
        (json!({"type": "yarn", "factor": 4, "truncate": false}), "truncate = false, expected true"),
        (
            json!({"type": "yarn", "factor": 4, "beta_slow": 0}),
            "beta_slow = 0, expected a number above 0, at most 10^6",
        ),
        (
            json!({"type": "yarn", "factor": 4, "attention_factor": -1}),
            "attention_factor = -1, expected a number from 10^-6 to 16",
        ),
        (
            json!({"type": "yarn", "factor": 4, "original_max_position_embeddings": 0}),
            "original_max_position_embeddings = 0, expected 1..=2^32-1",
        ),
    ] {
        assert_eq!(of(scaling).unwrap_err().to_string(), format!("config: rope_scaling.{expected}"));
    }
    let other = with(llama(), "rope_parameters", json!({"type": "linear", "factor": 2.0}));
    let two = parse(&with(other, "rope_scaling", json!({"type": "linear", "factor": 4.0})));
    assert!(said(&two).ends_with("expected the scaling in rope_parameters"), "{two:?}");
    let unknown = said(&of(json!({"type": "linear", "factor": 4.0, "beta_fast": 32})));
    assert!(
        unknown.contains("expected no other keys than rope_theta, factor and rope_type = linear"),
        "{unknown}"
    );
}

/// A configuration of another family with LLaMA's sizes.
fn of(model_type: &str, own: Value) -> Value {
    let mut config = with(llama(), "model_type", json!(model_type));
    config.as_object_mut().unwrap().remove("architectures");
    own.as_object().unwrap().iter().for_each(|(key, value)| config[key] = value.clone());
    config
}

#[test]
fn qwen_s_configurations_are_read() {
    let qwen2 = parse(&of("qwen2", json!({"sliding_window": 32, "use_sliding_window": false}))).unwrap();
    assert!(qwen2.has_attention_bias() && qwen2.extras().only_qkv_bias && !qwen2.has_ffn_bias());
    assert_eq!((qwen2.head_width(), qwen2.max_position_embeddings()), (16, 64));
    assert!(qwen2.window(0).is_none() && qwen2.extras().full_layers.is_empty());
    let windows = json!({"sliding_window": 32, "use_sliding_window": true, "max_window_layers": 1});
    let windows = parse(&of("qwen2", windows)).unwrap();
    assert_eq!([windows.window(0), windows.window(1)], [None, Some(32)]);
    let types = json!({"sliding_window": 8, "use_sliding_window": true,
        "layer_types": ["sliding_attention", "full_attention"]});
    let windows = parse(&of("qwen3", types)).unwrap();
    assert_eq!([windows.window(0), windows.window(1)], [Some(8), None]);
    for (types, expected) in [
        (json!(["sliding_attention"]), "full_attention or sliding_attention for each of 2 layers"),
        (json!(["full_attention", "none"]), "full_attention or sliding_attention for each of 2 layers"),
        (json!(["full_attention", "sliding_attention"]), "full_attention without a window"),
    ] {
        let text = said(&parse(&of("qwen2", json!({"layer_types": types}))));
        assert!(text.starts_with("config: layer_types = ") && text.ends_with(expected), "{text}");
    }
    let qwen3 = parse(&of("qwen3", json!({}))).unwrap();
    assert_eq!((qwen3.head_width(), qwen3.extras().qk_norm), (128, Some(QkNorm::Heads)));
    assert!(!qwen3.has_attention_bias());
    for (base, field, value, expected) in [
        (of("qwen2", json!({})), "attention_bias", json!(false), "true"),
        (of("qwen2", json!({})), "mlp_bias", json!(true), "false"),
        (of("qwen3", json!({})), "hidden_act", json!("gelu"), "silu or relu"),
        (of("qwen3", json!({})), "head_dim", json!(7), "even, at most 16384"),
        (of("qwen3", json!({})), "num_experts", json!(4), "0"),
    ] {
        let text = said(&parse(&with(base, field, value.clone())));
        assert_eq!(text, format!("config: {field} = {value}, expected {expected}").replace('"', ""));
    }
}

#[test]
fn relatives_of_llama_are_read() {
    let phi3 = parse(&of("phi3", json!({"rope_scaling": {"partial_rotary_factor": 0.75}}))).unwrap();
    assert_eq!((phi3.extras().rotated_width, phi3.extras().fused), (Some(12), true));
    assert_eq!(phi3.rotary(0).unwrap().unwrap().width(), 12);
    let olmo2 = parse(&of("olmo2", json!({}))).unwrap();
    assert_eq!(olmo2.extras().norm_places, NormPlaces::After);
    assert_eq!(olmo2.extras().qk_norm, Some(QkNorm::Whole));
    let granite = parse(&of("granite", json!({"residual_multiplier": 0.22, "logits_scaling": 8}))).unwrap();
    let number = |value| Some(Factor::Number(Decimal::from_f64(value).unwrap()));
    assert_eq!(
        (granite.extras().residual_scale, granite.extras().logit_divisor),
        (number(0.22), number(8.0))
    );
    assert_eq!((granite.extras().query_scale, granite.extras().embedding_scale), (number(1.0), None));
    for (base, field, value, expected) in [
        (of("phi3", json!({})), "partial_rotary_factor", json!(1.5), "a number above 0, at most 1"),
        (of("phi3", json!({})), "partial_rotary_factor", json!(0.2), "even, at least 2"),
        (of("phi3", json!({})), "attention_bias", json!(true), "false"),
        (of("phi3", json!({})), "rope_scaling", json!({"type": "linear", "factor": 2.0}), "default"),
        (of("phi3", json!({})), "logits_scaling", json!(2.0), "1"),
        (of("olmo2", json!({})), "attention_multiplier", json!(0.5), "null"),
        (of("olmo2", json!({})), "mlp_bias", json!(true), "false"),
        (of("granite", json!({})), "residual_multiplier", json!(0.0), "a number from 10^-6 to 10^6"),
        (of("granite", json!({})), "partial_rotary_factor", json!(0.5), "1"),
    ] {
        let text = said(&parse(&with(base, field, value)));
        assert!(text.contains(field) && text.ends_with(&format!(", expected {expected}")), "{field}: {text}");
    }
}

#[test]
fn mixtures_of_experts_are_read() {
    let mixtral = parse(&of("mixtral", json!({"rope_theta": null}))).unwrap();
    let mixture = Mixture { experts: 8, used: 2, normalised: true, mixtral: true };
    assert_eq!((mixtral.extras().mixture, mixtral.rotary_base()), (Some(mixture), Some(1_000_000)));
    let qwen = json!({"num_experts": 5, "num_experts_per_tok": 3, "moe_intermediate_size": 24});
    let qwen = parse(&of("qwen3_moe", qwen)).unwrap();
    let mixture = Mixture { experts: 5, used: 3, normalised: false, mixtral: false };
    assert_eq!((qwen.extras().mixture, qwen.ffn_dim()), (Some(mixture), 24));
    assert_eq!((qwen.experts(), parse(&of("qwen3", json!({}))).unwrap().experts()), (5, 1));
    let two = parse(&of("qwen3_moe", json!({"num_experts": 16, "num_local_experts": 17})));
    assert_eq!(said(&two), "config: num_local_experts = 17, expected 16");
    for (model_type, field, value, expected) in [
        ("mixtral", "num_experts_per_tok", json!(9), "1..=num_local_experts = 8"),
        ("mixtral", "num_local_experts", json!(0), "1..=16384"),
        ("mixtral", "norm_topk_prob", json!(false), "true"),
        ("qwen3_moe", "num_experts_per_tok", json!(0), "1..=num_experts = 128"),
        ("qwen3_moe", "decoder_sparse_step", json!(2), "1"),
        ("qwen3_moe", "mlp_only_layers", json!([3]), "no layers"),
        ("qwen3_moe", "shared_expert_intermediate_size", json!(8), "0"),
        ("qwen3_moe", "use_sliding_window", json!(true), "false"),
    ] {
        let text = said(&parse(&of(model_type, json!({field: value}))));
        let named = text.starts_with(&format!("config: {field} = "));
        assert!(named && text.ends_with(&format!(", expected {expected}")), "{field}: {text}");
    }
}

#[test]
fn gemma_s_configurations_are_read() {
    let gelu = json!({"hidden_act": "gelu_pytorch_tanh", "head_dim": 16});
    let gemma = |model_type: &str, own: Value| {
        let mut all = of(model_type, gelu.clone());
        own.as_object().unwrap().iter().for_each(|(key, value)| all[key] = value.clone());
        parse(&all)
    };
    let first = gemma("gemma", json!({"hidden_act": "gelu"})).unwrap();
    assert_eq!((first.extras().embedding_scale, first.extras().unit_gains), (Some(Factor::Root(64)), true));
    assert!(
        first.has_tied_head() && first.extras().tanh_gelu && first.extras().norm_places == NormPlaces::Before
    );
    let second = gemma("gemma2", json!({"query_pre_attn_scalar": 224})).unwrap();
    let cap = |value| SoftCap::new(Decimal::whole(value));
    assert_eq!((second.extras().score_cap, second.extras().logit_cap), (cap(50), cap(30)));
    assert_eq!(second.extras().query_scale, Some(Factor::InverseRoot(224)));
    assert_eq!([second.window(0), second.window(1)], [Some(4096), None]);
    let without =
        gemma("gemma2", json!({"attn_logit_softcapping": null, "final_logit_softcapping": 2})).unwrap();
    assert_eq!((without.extras().score_cap, without.extras().logit_cap), (None, cap(2)));

    let scaling = json!({"rope_type": "linear", "factor": 8.0});
    let old = json!({
        "rope_theta": 1e6, "rope_local_base_freq": 1e4, "rope_scaling": scaling, "sliding_window": 9, "sliding_window_pattern": 2
    });
    let new = json!({
        "sliding_window": 9, "layer_types": ["sliding_attention", "full_attention"], "rope_theta": null,
        "rope_parameters": {
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
            "full_attention": {"rope_type": "linear", "rope_theta": 1e6, "factor": 8.0}
        }
    });
    let third = [old, new].map(|own| gemma("gemma3_text", own).unwrap());
    assert_eq!(third[0], third[1]);
    assert_eq!(third[0].extras().qk_norm, Some(QkNorm::Heads));
    let angles = Angles { base: 10_000, scaling: RotaryScaling::Default };
    assert_eq!((third[0].extras().window_angles, third[0].rotary_base()), (Some(angles), Some(1_000_000)));
    assert_eq!(third[0].rotary_scaling, RotaryScaling::Linear { factor: Decimal::whole(8) });
    assert_eq!([0, 1].map(|layer| third[0].rotary(layer).unwrap().unwrap().base()), [10_000, 1_000_000]);

    for (model_type, field, value, expected) in [
        ("gemma", "hidden_act", json!("silu"), "gelu_pytorch_tanh"),
        ("gemma", "hidden_activation", json!("gelu"), "gelu_pytorch_tanh"),
        ("gemma", "sliding_window", json!(4), "null"),
        ("gemma", "attn_logit_softcapping", json!(50.0), "null"),
        ("gemma", "query_pre_attn_scalar", json!(64), "16"),
        ("gemma", "use_bidirectional_attention", json!(true), "false"),
        ("gemma2", "attn_logit_softcapping", json!(0.5), "null, or a number from 1 to 10^4"),
        ("gemma2", "query_pre_attn_scalar", json!(2.5), "a whole number from 1 to 2^32-1"),
        ("gemma2", "sliding_window_pattern", json!(3), "2"),
        ("gemma2", "sliding_window", Value::Null, "at least 1"),
        ("gemma2", "rope_local_base_freq", json!(100), "null"),
        ("gemma3_text", "attn_logit_softcapping", json!(50.0), "null"),
        (
            "gemma3_text",
            "rope_parameters",
            json!({"rope_theta": 1e4}),
            "only sliding_attention and full_attention",
        ),
        ("gemma3_text", "use_bidirectional_attention", json!(true), "false"),
    ] {
        let text = said(&gemma(model_type, json!({field: value})));
        let named = text.starts_with(&format!("config: {field} = "));
        assert!(named && text.ends_with(&format!(", expected {expected}")), "{field}: {text}");
    }
}

#[test]
fn quantised_checkpoints_are_refused_with_their_method() {
    for method in ["gptq", "awq", "fp8", "bitsandbytes"] {
        let config = with(llama(), "quantization_config", json!({"quant_method": method, "bits": 4}));
        let refused = parse(&config).unwrap_err().to_string();
        let expected = "expected null: the checkpoint is quantised; convert it to FP16, BF16 or FP32";
        assert_eq!(refused, format!("config: quantization_config = {method}, {expected}"));
    }
    assert!(parse(&with(llama(), "quantization_config", Value::Null)).is_ok());
}

#[test]
fn fields_that_nobody_knows_are_a_warning() {
    let config = with(with(llama(), "sinks", json!(4)), "auto_map", json!({"AutoConfig": "x.y"}));
    let config = with(config, "magic", Value::Null);
    let warnings = parse(&config).unwrap().warnings().to_vec();
    assert_eq!(
        warnings,
        [
            "the checkpoint's own code (auto_map) does not run",
            "ignored, for nothing here knows them: magic, sinks"
        ]
    );
    for (field, value) in [
        ("is_causal", json!(true)),
        ("logit_scale", json!(1.0)),
        ("layer_types", json!(["full_attention", "full_attention"])),
        ("pruned_heads", json!({})),
        ("num_experts", Value::Null),
        ("use_cache", json!(false)),
    ] {
        assert_eq!(parse(&with(llama(), field, value)).unwrap().warnings(), [""; 0], "{field}");
    }
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/checkpoints");
    let mut read = 0;
    for folder in std::fs::read_dir(golden).unwrap() {
        let folder = folder.unwrap().path();
        if !folder.is_dir() {
            continue;
        }
        let config = DecoderConfig::load(&folder).unwrap();
        assert_eq!(config.warnings(), [""; 0], "{config:?}");
        read += 1;
    }
    assert!(read >= 9, "{read}");
}

#[test]
fn hidden_sizes_beyond_normalisation_are_refused() {
    let config = with(with(opt(), "hidden_size", json!(16388)), "word_embed_proj_dim", json!(16388));
    assert!(said(&parse(&config)).starts_with("config: hidden_size = "));
}

#[test]
fn absent_architecture_missing_fields_and_wrong_types_are_errors() {
    let without = |field: &str| {
        let mut config = opt();
        config.as_object_mut().unwrap().remove(field);
        config
    };
    assert_eq!(parse(&without("model_type")).unwrap().architecture(), Architecture::Opt);
    assert_eq!(parse(&without("architectures")).unwrap().architecture(), Architecture::Opt);
    let mut neither = without("model_type");
    neither.as_object_mut().unwrap().remove("architectures");
    assert!(said(&parse(&neither)).starts_with("config: model_type = "));
    let config = without("ffn_dim");
    let reason = parse(&config).unwrap_err().root_cause().to_string();
    assert!(reason.contains("ffn_dim"), "{reason}");
    assert!(said(&parse(&with(config, "ffn_dim", json!(-1)))).contains(" is not valid: "));
}

#[test]
fn values_of_a_wrong_type_are_named_with_their_key() {
    let reason = |config: &Value| {
        let error = parse(config).unwrap_err();
        assert!(error.to_string().ends_with(" is not valid"), "{error}");
        error.root_cause().to_string()
    };
    for (base, key, value, expected) in [
        (llama(), "rms_norm_eps", json!("1e-5"), "invalid type: string \"1e-5\", expected a number"),
        (llama(), "vocab_size", json!(-1), "invalid value: integer `-1`, expected a whole number"),
        (llama(), "vocab_size", Value::Null, "invalid type: null, expected a whole number"),
        (
            llama(),
            "num_hidden_layers",
            json!(2.5),
            "invalid type: floating point `2.5`, expected a whole number",
        ),
        (llama(), "rope_theta", json!("1e4"), "invalid type: string \"1e4\", expected a number"),
        (llama(), "rope_scaling", json!(2), "invalid type: integer `2`, expected a map"),
        (llama(), "hidden_act", json!(1), "invalid type: integer `1`, expected a string"),
        (falcon(), "alibi", json!("no"), "invalid type: string \"no\", expected a boolean"),
        (falcon(), "partial_rotary_factor", json!("1"), "invalid type: string \"1\", expected a number"),
        (opt(), "_remove_final_layer_norm", json!(0), "invalid type: integer `0`, expected a boolean"),
    ] {
        assert_eq!(reason(&with(base, key, value)), format!("{key}: {expected}"));
    }
    for value in [json!(5), Value::Null, json!(["llama"]), json!("llama")] {
        assert_eq!(reason(&value), "not an object in JSON");
    }
}

#[test]
fn a_width_of_heads_that_no_field_gives_is_named_as_a_quotient() {
    let odd = with(with(falcon(), "hidden_size", json!(60)), "num_attention_heads", json!(4));
    let said = parse(&with(odd, "num_kv_heads", json!(2))).unwrap_err().to_string();
    assert_eq!(said, "config: hidden_size / num_attention_heads = 15, expected even, at most 16384");
}
