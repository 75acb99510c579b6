"""Multi-head latent attention: DeepSeek V2 to V3.2, Kimi K2, GLM-4.7-Flash and GLM-5."""

from specs.attention import Indexer, MlaAttention
from specs.huggingface.architectures import Stack, architecture, group
from specs.huggingface.fields import Fields
from specs.huggingface.layers import draft_of, mla, moe, networks, stack


def indexer(c: Fields) -> Indexer:
    """Return the indexer of DeepSeek sparse attention."""
    return Indexer(
        heads=c.count("index_n_heads"),
        dim=c.count("index_head_dim"),
        top_k=c.count("index_topk"),
    )


def _corrected(c: Fields) -> bool:
    """Tell whether the router adds a learned correction: the loss-free balancing of V3 does."""
    return c.word("topk_method") == "noaux_tc"


@architecture("deepseek_v2", "DeepseekV2ForCausalLM")
def deepseek_v2(c: Fields) -> Stack:
    """DeepSeek-V2: latent attention, router without correction."""
    layers = c.layer_count()
    attention = mla(c)
    ffns = networks(c, layers, moe(c, correction=_corrected(c)))
    return stack(c, (group(attention, ffn) for ffn in ffns))


@architecture(
    "deepseek_v3",
    "DeepseekV3ForCausalLM",
    "kimi_k2",
    "KimiK2ForCausalLM",
    "glm4_moe_lite",
    "Glm4MoeLiteForCausalLM",
)
def deepseek_v3(c: Fields) -> Stack:
    """DeepSeek-V3 and what shares its layers; the router of all of them is corrected."""
    layers = c.layer_count()
    attention, routed = mla(c), moe(c, correction=True)
    ffns = networks(c, layers, routed)
    draft = draft_of(c, group(attention, routed))
    return stack(c, (group(attention, ffn) for ffn in ffns), draft=draft)


@architecture("deepseek_v32", "DeepseekV32ForCausalLM", "glm_moe_dsa", "GlmMoeDsaForCausalLM")
def deepseek_v32(c: Fields) -> Stack:
    """DeepSeek-V3.2 and GLM-5: an indexer, in some layers that of an earlier one."""
    layers = c.layer_count()
    routed = moe(c, correction=True)
    ffns = networks(c, layers, routed)
    full = mla(c, indexer=indexer(c))
    kinds = c.words("indexer_types", length=layers) or ["full"] * layers
    shared: MlaAttention = full
    if "shared" in kinds:
        shared = mla(c, top_k=c.count("index_topk"))
    return stack(
        c,
        (group(shared if kinds[i] == "shared" else full, ffns[i]) for i in range(layers)),
        draft=draft_of(c, group(full, routed)),
    )
