"""What each kind of layer consists of, read once more from the documentation of its fields.

A second opinion on ``specs.attention`` and ``specs.ffn``: nothing of their ``parts`` is used. The
reference model, the rules of cutting and the counts of the catalogue stand on it.
"""

from typing import NamedTuple

from specs.attention import (
    Attention,
    CsaAttention,
    HcaAttention,
    HeadedAttention,
    LinearAttention,
    MlaAttention,
    SwaAttention,
)
from specs.ffn import DenseFfn, Ffn, MoeFfn
from specs.model import LayerGroup, ModelSpec, Pattern


class Mat(NamedTuple):
    """A matrix from ``rows`` inputs to ``columns`` outputs.

    ``dealt``: ``heads`` and ``width`` go round the TP ranks, ``kv`` round the ranks with different
    KV heads, nothing is whole on all; ``side`` is what is cut, into ``units`` at most.
    """

    tensor: str
    rows: int
    columns: int
    dealt: str = ""
    units: int = 1
    side: str = "columns"
    again: bool = False

    @property
    def numbers(self) -> int:
        return self.rows * self.columns


class Learned(NamedTuple):
    """Numbers that multiply nothing: norms and biases, FP32 ones, and those no step reads."""

    norms: int = 0
    fp32: int = 0
    idle_fp32: int = 0
    idle_int64: int = 0

    def __add__(self, other: "Learned") -> "Learned":  # type: ignore[override]
        return Learned(*(a + b for a, b in zip(self, other, strict=True)))


class Kept(NamedTuple):
    """Entries kept of a context: ``every`` tokens one, of ``vectors`` vectors for each head."""

    tensor: str
    width: int
    positional: int
    vectors: int
    heads: int
    query_heads: int
    operations: int
    every: int = 1
    window: int | None = None
    top: int | None = None
    owned: bool = True
    dealt: bool = True

    def left(self, tokens: int | float) -> float:
        """Entries that stay of so many tokens."""
        count = float(tokens) if self.every == 1 else float(tokens // self.every)
        return count if self.window is None else min(count, self.window)

    def seen(self, tokens: int | float) -> float:
        """Entries that the last of so many tokens attends to."""
        return self.left(tokens) if self.top is None else min(self.left(tokens), self.top)


class Fixed(NamedTuple):
    """A state of one session, of ``numbers`` for each of ``heads``."""

    tensor: str
    numbers: int
    heads: int
    operations: int = 0
    passed: bool = True


class Half(NamedTuple):
    """Attention, or the network, of one layer; routed experts excepted."""

    matrices: list[Mat]
    learned: Learned = Learned()
    kept: list[Kept] = []  # noqa: RUF012
    states: list[Fixed] = []  # noqa: RUF012
    heads: int = 0
    query: int = 0
    output: int = 0

    @property
    def there(self) -> bool:
        return bool(self.matrices)


def groups(model: ModelSpec) -> list[LayerGroup]:
    """The stack with its repeated rows written out."""
    found: list[LayerGroup] = []
    for part in model.layers:
        if isinstance(part, Pattern):
            for _ in range(part.repeat):
                found.extend(part.layers)
        else:
            found.append(part)
    return found


def attention(a: Attention, hidden: int, *, prefill: bool = False) -> Half:
    if isinstance(a, MlaAttention):
        return _latent(a, hidden, prefill=prefill)
    if isinstance(a, LinearAttention):
        return _linear(a, hidden)
    if isinstance(a, HeadedAttention):
        return _headed(a, hidden)
    return Half([])


def _queries(hidden: int, rank: int | None, width: int, heads: int) -> list[Mat]:
    if rank is None:
        return [Mat("attention", hidden, width, "heads", heads)]
    return [Mat("attention", hidden, rank), Mat("attention", rank, width, "heads", heads)]


def _headed(a: HeadedAttention, hidden: int) -> Half:
    width, kv = a.q_heads * a.head_dim, a.kv_heads * a.head_dim
    matrices = _queries(hidden, a.q_lora, width, a.q_heads)
    if a.output_gate:
        matrices += [Mat("attention", hidden, width, "heads", a.q_heads)]
    vectors = 1 if a.single_kv else 2
    if not a.shared_kv:
        matrices += vectors * [Mat("attention", hidden, kv, "kv", a.kv_heads)]
    if a.o_lora is None:
        matrices += [Mat("attention", width, hidden, "heads", a.q_heads, "rows")]
    else:
        # Every group of heads has its own step to o_lora numbers: a matrix of blocks.
        low = a.o_groups * a.o_lora
        matrices += [Mat("attention", width // a.o_groups, low, "heads", a.o_groups)]
        matrices += [Mat("attention", low, hidden, "heads", a.o_groups, "rows")]
    norms = a.q_lora or 0
    if a.qk_norm:
        norms += a.head_dim if a.shared_kv else 2 * a.head_dim
    if a.single_kv and not a.shared_kv:
        norms += a.head_dim
    if a.qkv_bias:
        norms += width + (0 if a.shared_kv else vectors * kv)
    if a.o_bias:
        norms += hidden
    learned = Learned(norms, fp32=a.q_heads if a.sinks else 0)

    def entries(tensor: str, **how: object) -> Kept:
        sizes = (a.head_dim, a.rope_dim, vectors, a.kv_heads, a.q_heads, 4 * a.head_dim)
        return Kept(tensor, *sizes, **how)  # type: ignore[arg-type]

    windowed = isinstance(a, SwaAttention | CsaAttention | HcaAttention)
    window = a.window if windowed else None  # type: ignore[attr-defined]
    kept = [entries("window" if windowed else "kv", window=window, owned=not a.shared_kv)]
    states: list[Fixed] = []
    if isinstance(a, CsaAttention | HcaAttention):
        top = a.top_k if isinstance(a, CsaAttention) else None
        kept += [entries("kv", every=a.ratio, top=top, owned=a.owner)]
        if a.owner:
            matrices += _compressor(a, hidden, a.head_dim)
            learned += _scores(a, a.head_dim)
            states += _open_entry(a, a.head_dim)
    if isinstance(a, CsaAttention) and a.indexer:
        i = a.indexer
        assert a.q_lora
        matrices += [
            Mat("attention", a.q_lora, i.heads * i.dim),
            Mat("compressor", hidden, i.heads),
        ]
        mine = a.index_keys != "shared"
        kept += [
            Kept("index", i.dim, 0, 1, 1, i.heads, 2 * i.dim, a.ratio, None, i.scans, mine, False)
        ]
        if a.index_keys == "compressed":
            matrices += _compressor(a, hidden, i.dim)
            learned += _scores(a, i.dim)
            states += _open_entry(a, i.dim)
        if a.index_keys == "projected":
            matrices += [Mat("compressor", a.head_dim, i.dim)]
    return Half(matrices, learned, kept, states, a.q_heads, a.head_dim, a.head_dim)


Compressed = CsaAttention | HcaAttention


def _compressor(a: Compressed, hidden: int, width: int) -> list[Mat]:
    """Values, and scores by which the tokens of an entry are weighed; twice with overlap."""
    one = Mat("compressor", hidden, width * (2 if a.overlap else 1))
    return [one] if a.ratio == 1 else [one, one]


def _scores(a: Compressed, width: int) -> Learned:
    each = width * (2 if a.overlap else 1)
    return Learned(norms=width, idle_fp32=0 if a.ratio == 1 else a.ratio * each)


def _open_entry(a: Compressed, width: int) -> list[Fixed]:
    """Values and scores of the tokens since the last entry, and of its neighbour with overlap."""
    if a.ratio == 1:
        return []
    tokens, each = (2 * a.ratio, 2 * width) if a.overlap else (a.ratio, width)
    return [Fixed("state", 2 * tokens * each, 1, passed=False)]


def _latent(a: MlaAttention, hidden: int, *, prefill: bool) -> Half:
    h, key, latent = a.q_heads, a.nope_dim + a.rope_dim, a.kv_lora + a.rope_dim
    expanded = a.cache == "expanded"
    # Attention over latents themselves: in decode, and wherever an indexer picks them.
    over_latents = not expanded and (not prefill or a.indexer is not None)
    matrices = _queries(hidden, a.q_lora, h * key, h)
    matrices += [Mat("attention", hidden, latent)]
    again = not expanded and not over_latents
    wide = h * (a.nope_dim + a.v_dim)
    matrices += [Mat("attention", a.kv_lora, wide, "heads", h, again=again)]
    matrices += [Mat("attention", h * a.v_dim, hidden, "heads", h, "rows")]
    if a.output_gate:
        matrices += [Mat("attention", hidden, h * a.v_dim, "heads", h)]
    norms = a.kv_lora + (a.q_lora or 0)
    if a.qkv_bias:
        norms += latent + (h * key if a.q_lora is None else a.q_lora)
    if expanded:
        kept = [Kept("kv", key + a.v_dim, a.rope_dim, 1, h, h, 2 * (key + a.v_dim))]
        return Half(matrices, Learned(norms), kept, [], h, key, a.v_dim)
    operations = 2 * (latent + a.kv_lora) if over_latents else 2 * (key + a.v_dim)
    top = a.indexer.top_k if a.indexer else None
    kept = [Kept("kv", latent, a.rope_dim, 1, 1, h, operations, top=top)]
    if a.indexer:
        i = a.indexer
        assert a.q_lora
        matrices += [
            Mat("attention", a.q_lora, i.heads * i.dim),
            Mat("attention", hidden, i.dim),
            Mat("compressor", hidden, i.heads),
        ]
        norms += 2 * i.dim
        kept += [Kept("index", i.dim, 0, 1, 1, i.heads, 2 * i.dim, top=i.scans, dealt=False)]
    widths = (latent, a.kv_lora) if over_latents else (key, a.v_dim)
    return Half(matrices, Learned(norms), kept, [], h, *widths)


def _linear(a: LinearAttention, hidden: int) -> Half:
    keys, values, h = a.k_heads * a.k_dim, a.v_heads * a.v_dim, a.v_heads

    def gate(rank: int, width: int) -> list[Mat]:
        if not rank:
            return [Mat("attention", hidden, width, "heads", h)]
        return [Mat("attention", hidden, rank), Mat("attention", rank, width, "heads", h)]

    matrices = 2 * [Mat("attention", hidden, keys, "kv", a.k_heads)]
    matrices += [Mat("attention", hidden, values, "heads", h), *gate(a.gate_rank, values)]
    if a.decay_rank:
        matrices += gate(a.decay_rank, h * a.k_dim)
    matrices += a.scalars * [Mat("attention", hidden, h, "heads", h)]
    matrices += [Mat("attention", values, hidden, "heads", h, "rows")]
    channels = 2 * keys + values
    norms = (values if a.wide_norm else a.v_dim) + channels * a.convolution
    norms += channels if a.convolution_bias else 0
    fp32 = h * a.head_vectors + (h * a.k_dim if a.decay_rank else 0)
    cells = a.k_dim * a.v_dim
    # Outer product and its addition, and the query's read: two each; what a key finds: two more.
    states = [Fixed("state", cells, h, (6 if a.update == "delta" else 4) * cells)]
    if a.convolution:
        for heads, width in ((a.k_heads, 2 * a.k_dim), (h, a.v_dim)):
            taps = a.convolution * width
            states += [Fixed("convolution", taps, heads, 2 * taps)]
    return Half(matrices, Learned(norms, fp32), [], states, h)


def _network(tensor: str, hidden: int, width: int, *, gated: bool) -> list[Mat]:
    up = Mat(tensor, hidden, width, "width", width)
    down = Mat(tensor, width, hidden, "width", width, "rows")
    return [up, up, down] if gated else [up, down]


def network(f: Ffn, hidden: int) -> Half:
    if isinstance(f, DenseFfn):
        biases = (2 if f.gated else 1) * f.intermediate + hidden if f.bias else 0
        return Half(_network("ffn", hidden, f.intermediate, gated=f.gated), Learned(biases))
    if not isinstance(f, MoeFfn):
        return Half([])
    matrices = [Mat("router", hidden, f.experts)]
    if f.latent:
        matrices += [Mat("ffn", hidden, f.latent), Mat("ffn", f.latent, hidden)]
    if f.shared_intermediate:
        matrices += _network("shared_experts", hidden, f.shared_intermediate, gated=f.gated)
        if f.shared_gate:
            matrices += [Mat("router", hidden, 1)]
    norms = f.experts if f.bias else 0
    if f.latent and f.latent_norm:
        norms += f.latent
    fp32 = f.experts if f.correction else 0
    return Half(matrices, Learned(norms, fp32, idle_int64=f.hash_tokens * f.top_k))


def expert(f: MoeFfn, hidden: int) -> tuple[list[Mat], int]:
    """Matrices of one routed expert, and the numbers of its biases."""
    outer = f.latent if f.latent else hidden
    middle = (2 if f.gated else 1) * f.intermediate
    biases = middle + outer if f.bias else 0
    return _network("experts", outer, f.intermediate, gated=f.gated), biases


def mixer(model: ModelSpec, *, last: bool = False) -> Half:
    """What mixes the residual streams before one half of a layer, or joins them at the end."""
    n = model.hyper_connections
    if not n:
        return Half([])
    # To the half n weights and back n, and n × n among the streams; a scale for each of the three.
    outputs, scales = (n, 1) if last else (n + n + n * n, 3)
    return Half([Mat("hyper", n * model.hidden, outputs)], Learned(fp32=outputs + scales))


def halves(model: ModelSpec, group: LayerGroup, *, prefill: bool = False) -> list[Half]:
    """Both halves of a layer that are there, as they are without norms and mixers."""
    both = (
        attention(group.attention, model.hidden, prefill=prefill),
        network(group.ffn, model.hidden),
    )
    return [half for half in both if half.there]


def layer_numbers(model: ModelSpec, group: LayerGroup) -> int:
    """Parameters of one layer; tables of whole numbers and of Engram are none."""
    total = 0
    for half in halves(model, group):
        mixing = mixer(model)
        learned = half.learned + mixing.learned
        total += sum(m.numbers for m in (*half.matrices, *mixing.matrices))
        total += model.hidden + learned.norms + learned.fp32 + learned.idle_fp32
    if isinstance(group.ffn, MoeFfn):
        matrices, biases = expert(group.ffn, model.hidden)
        total += group.ffn.experts * (sum(m.numbers for m in matrices) + biases)
    return total
