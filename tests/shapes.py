"""What each kind of layer consists of, read once more from the documentation of its fields.

A second opinion on ``specs.attention`` and ``specs.ffn``: nothing of their ``parts`` is used. The
reference model, the rules of cutting and the counts of the catalogue stand on it.
"""

from typing import NamedTuple

from specs.attention import (
    Attention,
    CsaAttention,
    GqaAttention,
    HcaAttention,
    Indexer,
    LinearAttention,
    MlaAttention,
    SwaAttention,
)
from specs.attention.headed import HeadedAttention
from specs.ffn import DenseFfn, Ffn, MoeFfn
from specs.model import LayerGroup, ModelSpec, Pattern


class Mat(NamedTuple):
    """A matrix from ``rows`` inputs to ``columns`` outputs.

    ``dealt``: ``heads`` and ``width`` go round the TP ranks, ``kv`` round the ranks with different
    KV heads and ``own`` round all of TP, both copied beyond them; nothing is whole on all.
    ``side`` is what is cut, into ``units`` at most. ``again``: a prefill multiplies its prefix by
    it once more; ``every`` so many tokens are multiplied once.
    """

    tensor: str
    rows: int
    columns: int
    dealt: str = ""
    units: int = 1
    side: str = "columns"
    again: bool = False
    every: int = 1

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
    key, value = a.head_dim, a.v_dim or a.head_dim
    matrices = _queries(hidden, a.q_lora, a.q_heads * key, a.q_heads)
    if a.output_gate:
        matrices += [Mat("attention", hidden, a.q_heads * value, "heads", a.q_heads)]
    widths = [key] if a.single_kv else [key, value]
    if not a.shared_kv:
        for one in widths:
            # A window is too short to share: every rank has the keys of its own heads.
            ways = "own" if isinstance(a, SwaAttention) else "kv"
            matrices += [Mat("attention", hidden, a.kv_heads * one, ways, a.kv_heads)]
    if a.o_lora is None:
        matrices += [Mat("attention", a.q_heads * value, hidden, "heads", a.q_heads, "rows")]
    else:
        # Every group of heads has its own step to o_lora numbers: a matrix of blocks.
        low, group = a.o_groups * a.o_lora, a.q_heads // a.o_groups
        matrices += [Mat("attention", group * value, low, "heads", a.o_groups)]
        matrices += [Mat("attention", low, hidden, "heads", a.o_groups, "rows")]
    norms = a.q_lora or 0
    if a.qk_norm:
        norms += key if a.shared_kv else 2 * key
    if a.single_kv and not a.shared_kv:
        norms += key
    if a.qkv_bias:
        norms += a.q_heads * key + (0 if a.shared_kv else a.kv_heads * sum(widths))
    if a.o_bias:
        norms += hidden
    learned = Learned(norms, fp32=a.q_heads if a.sinks else 0)
    plain = Half(matrices, learned, [], [], a.q_heads, key, value)
    windowed = isinstance(a, SwaAttention | CsaAttention | HcaAttention)
    choosing = a.indexer if isinstance(a, GqaAttention) else None
    # A key and a value of different widths lie side by side.
    vectors, width = (len(widths), key) if key == value else (1, key + value)
    every_token = Kept(
        "window" if windowed else "kv",
        width,
        a.rope_dim,
        vectors,
        a.kv_heads,
        a.q_heads,
        2 * (key + value),
        window=a.window if windowed else None,  # type: ignore[attr-defined]
        top=choosing.top_k if choosing else None,
        owned=not a.shared_kv,
    )
    plain.kept.append(every_token)
    if choosing:
        for one in (choosing.heads * choosing.dim, choosing.dim):
            matrices.append(Mat("attention", hidden, one))
        plain.kept.append(_scored(choosing, 1, owned=True))
        return plain._replace(learned=learned + Learned(2 * choosing.dim))
    if isinstance(a, CsaAttention | HcaAttention):
        return _compressed(a, hidden, plain)
    return plain


def _scored(i: Indexer, every: int, *, owned: bool) -> Kept:
    """Keys that an indexer scores, with all its heads on every rank."""
    sizes = (i.dim, 0, 1, 1, i.heads, 2 * i.dim)
    return Kept("index", *sizes, every, top=i.scans, owned=owned, dealt=False)


Compressed = CsaAttention | HcaAttention


def _compressed(a: Compressed, hidden: int, plain: Half) -> Half:
    """Add entries of several tokens, what makes them, and the indexer that chooses of them."""
    learned = plain.learned
    made = [(a.head_dim, a.weighed)] if a.owner else []
    chosen = a.top_k if isinstance(a, CsaAttention) else None
    vectors = 1 if a.single_kv else 2
    sizes = (a.head_dim, a.rope_dim, vectors, a.kv_heads, a.q_heads, 4 * a.head_dim)
    plain.kept.append(Kept("kv", *sizes, a.ratio, top=chosen, owned=a.owner))
    if isinstance(a, CsaAttention) and a.indexer:
        i = a.indexer
        assert a.q_lora
        plain.matrices.append(Mat("attention", a.q_lora, i.heads * i.dim))
        plain.matrices.append(Mat("compressor", hidden, i.heads))
        plain.kept.append(_scored(i, a.ratio, owned=a.index_keys != "shared"))
        if a.index_keys == "compressed":
            made.append((i.dim, True))
        if a.index_keys == "projected":
            plain.matrices.append(Mat("compressor", a.head_dim, i.dim, every=a.ratio))
            learned += Learned(i.dim)
    for width, weighed in made:
        plain.matrices.extend(_compressor(a, hidden, width, weighed=weighed))
        learned += _scores(a, width)
        plain.states.extend(_open_entry(a, width))
    return plain._replace(learned=learned)


def _compressor(a: Compressed, hidden: int, width: int, *, weighed: bool) -> list[Mat]:
    """Values, and scores by which the tokens of an entry are weighed; twice with overlap."""
    one = Mat("compressor", hidden, width * (2 if a.overlap else 1))
    return [one, one] if weighed and a.ratio > 1 else [one]


def _scores(a: Compressed, width: int) -> Learned:
    each = width * (2 if a.overlap else 1)
    return Learned(norms=width, idle_fp32=a.ratio * each if a.positions else 0)


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
    chosen = a.indexer is not None or a.top_k is not None
    over_latents = not expanded and (chosen or not prefill)
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
    top = a.indexer.top_k if a.indexer else a.top_k
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
        kept += [_scored(i, 1, owned=True)]
    widths = (latent, a.kv_lora) if over_latents else (key, a.v_dim)
    return Half(matrices, Learned(norms), kept, [], h, *widths)


def _linear(a: LinearAttention, hidden: int) -> Half:
    keys, values, h = a.k_heads * a.k_dim, a.v_heads * a.v_dim, a.v_heads

    def gate(rank: int, width: int) -> list[Mat]:
        if not rank:
            return [Mat("attention", hidden, width, "heads", h)]
        return [Mat("attention", hidden, rank), Mat("attention", rank, width, "heads", h)]

    matrices = 2 * [Mat("attention", hidden, keys, "own", a.k_heads)]
    matrices += [Mat("attention", hidden, values, "heads", h), *gate(a.gate_rank, values)]
    if a.decay_rank:
        matrices += gate(a.decay_rank, h * a.k_dim)
    matrices += a.scalars * [Mat("attention", hidden, h, "heads", h)]
    matrices += [Mat("attention", values, hidden, "heads", h, "rows")]
    channels = 2 * keys + values
    norms = (values if a.wide_norm else a.v_dim) + channels * a.convolution
    norms += channels if a.convolution_bias else 0
    of_heads = h * a.head_vectors + (h * a.k_dim if a.decay_rank else 0)
    learned = {
        "none": Learned(norms + of_heads),
        "heads": Learned(norms, of_heads),
        "all": Learned(0, norms + of_heads),
    }[a.fp32_vectors]
    cells = a.k_dim * a.v_dim
    # Outer product and its addition, and the query's read: two each; what a key finds: two more.
    states = [Fixed("state", cells, h, (6 if a.update == "delta" else 4) * cells)]
    if a.convolution:
        for heads, width in ((a.k_heads, 2 * a.k_dim), (h, a.v_dim)):
            taps = a.convolution * width
            states += [Fixed("convolution", taps, heads, 2 * taps)]
    return Half(matrices, learned, [], states, h)


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
    idle = f.experts if f.image_correction else 0
    return Half(matrices, Learned(norms, fp32, idle, f.hash_tokens * f.top_k))


def expert(f: MoeFfn, hidden: int) -> tuple[list[Mat], int]:
    """Matrices of one routed expert, and the numbers of its biases."""
    outer = f.latent if f.latent else hidden
    middle = (2 if f.gated else 1) * f.intermediate
    biases = middle + outer if f.bias else 0
    return _network("experts", outer, f.intermediate, gated=f.gated), biases


def mixer(model: ModelSpec, *, last: bool = False) -> Half:
    """What mixes the residual streams before one half of a layer, or joins them at the end."""
    n = model.hyper_connections
    if not n or (last and not model.joined_streams):
        # Attention residuals: a norm and a score for each number, wherever nothing else mixes.
        return Half([], Learned(2 * model.hidden if model.attention_residuals else 0))
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
