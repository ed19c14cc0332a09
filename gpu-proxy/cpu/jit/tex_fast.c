/* Fetches of many lanes at once; compiled once for AVX2 and once for AVX-512. The steps are those of
 * tex_sample.c, in the same order, so that the results are the same. */
#include "gpu-proxy/cpu/jit/tex_fast.h"

#include "gpu-proxy/cpu/jit/tex_lanes.h"

/* Texels of a dimension: the first's and the second's index times its step in bytes, and the weight of
 * the second. `inside` counts for border only. */
typedef struct {
    vi at[2];
    vi inside[2];
    vf weight[2];
} axis_t;

/* The job's first fields are constants where the code below is inlined for them. */
typedef struct {
    unsigned dims;
    bool linear, has_border;
    const cpu_tex_image_t *image;
    const cpu_tex_sampler_t *sampler;
    const cpu_tex_level_t *level;
    bool floats;     /* what is read is made floats, */
    float scale;     /* which are divided by this */
    float border[4]; /* times the scale */
} job_t;

static unsigned mode_of(const cpu_tex_sampler_t *s, unsigned d)
{
    unsigned mode = s->address[d];
    return !s->normalised && (mode == CPU_ADDRESS_WRAP || mode == CPU_ADDRESS_MIRROR)
               ? CPU_ADDRESS_CLAMP
               : mode;
}

static inline vf in_texels(vf x, uint32_t size, unsigned mode, bool normalised)
{
    if (!normalised) {
        return x;
    }
    if (mode == CPU_ADDRESS_WRAP) {
        x -= vf_floor(x);
    } else if (mode == CPU_ADDRESS_MIRROR) {
        vf whole = vf_floor(x), part = x - whole;
        vi odd = (whole - 2.0f * vf_floor(whole * 0.5f)) != 0.0f;
        x = vf_select(odd, 1.0f - part, part);
    }
    return x * (float)size;
}

/* floor(x) within [-2, size]; NaN becomes 0. */
static inline vi whole_of(vf floored, uint32_t size)
{
    vf f = vf_select(floored == floored, floored, vf_all(0.0f));
    f = vf_select(f >= -2.0f, f, vf_all(-2.0f));
    f = vf_select(f <= (float)size, f, vf_all((float)size));
    return vi_of(f);
}

/* Indices as the mode has them: from wrap and mirror they are out by one image at most. */
static inline vi place(vi i, uint32_t size, unsigned mode, vi *inside)
{
    int32_t n = (int32_t)size;
    if (mode == CPU_ADDRESS_WRAP) {
        i = vi_select(i < 0, i + n, i);
        i = vi_select(i >= n, i - n, i);
    } else if (mode == CPU_ADDRESS_MIRROR) {
        i = vi_select(i < 0, -1 - i, i);
        i = vi_select(i >= n, 2 * n - 1 - i, i);
    }
    vi in = vi_min(vi_max(i, vi_all(0)), vi_all(n - 1));
    *inside = in == i;
    return in;
}

static inline __attribute__((always_inline)) axis_t axis_of(const job_t *j, unsigned d, vf x)
{
    const cpu_tex_level_t *l = j->level;
    const uint32_t size = d == 0 ? l->width : d == 1 ? l->height : l->depth;
    const int32_t step = d == 0 ? j->image->bytes : d == 1 ? (int32_t)l->row : (int32_t)l->slice;
    unsigned mode = mode_of(j->sampler, d);
    axis_t a;
    vf t = in_texels(x, size, mode, j->sampler->normalised);
    if (j->linear) {
        t -= 0.5f;
        vf whole = vf_floor(t), f = t - whole;
        f = vf_floor(f * 256.0f + 0.5f) * (1.0f / 256.0f);
        a.weight[1] = vf_select(f >= 0.0f, f, vf_all(0.0f));
        a.weight[0] = 1.0f - a.weight[1];
        vi i = whole_of(whole, size);
        a.at[0] = place(i, size, mode, &a.inside[0]) * step;
        a.at[1] = place(i + 1, size, mode, &a.inside[1]) * step;
    } else {
        a.at[0] = place(whole_of(vf_floor(t), size), size, mode, &a.inside[0]) * step;
        a.at[1] = a.inside[1] = vi_all(0);
        a.weight[0] = a.weight[1] = vf_all(0.0f);
    }
    return a;
}

/* ---- small texels: a word or less, channels in vectors of their own ---- */

/* One texel's bits per lane, in the low bits. */
static inline vi load_words(const uint8_t *base, vi offset, unsigned bytes)
{
    int32_t first = offset[0];
    if (vi_same(offset, vi_iota() * (int32_t)bytes + first)) { /* neighbours in a row */
        return bytes == 4   ? vi_load((const uint32_t *)(base + first))
               : bytes == 2 ? load_halves(base + first)
                            : load_bytes(base + first);
    }
    if (bytes == 4) {
        return gather(base, offset);
    }
    vi v = gather(base, offset & ~3); /* rows begin at words */
    return (vi)((vu)v >> (vu)((offset & 3) * 8));
}

/* Two neighbours of four bytes each. */
static inline void load_neighbours(const uint8_t *base, vi offset, vi out[2])
{
    int32_t first = offset[0];
    if (vi_same(offset, vi_iota() * 4 + first)) {
        out[0] = vi_load((const uint32_t *)(base + first));
        out[1] = vi_load((const uint32_t *)(base + first + 4));
    } else {
        gather_pairs(base, offset, out);
    }
}

static inline vi channel(vi word, unsigned n, unsigned bits, bool is_signed)
{
    unsigned above = 32 - bits * (n + 1);
    vu up = (vu)word << above;
    return is_signed ? (vi)up >> (32 - bits) : (vi)(up >> (32 - bits));
}

/* A channel as a filter blends it: see cpu_texel_raw. */
static inline vf raw(vi word, unsigned n, unsigned texel)
{
    switch (texel) {
    case CPU_TEXEL_U8:
        return vf_of(channel(word, n, 8, false));
    case CPU_TEXEL_S8:
        return vf_of(vi_max(channel(word, n, 8, true), vi_all(-127)));
    case CPU_TEXEL_U16:
        return vf_of(channel(word, n, 16, false));
    case CPU_TEXEL_S16:
        return vf_of(vi_max(channel(word, n, 16, true), vi_all(-32767)));
    case CPU_TEXEL_F16:
        return from_half(channel(word, n, 16, false));
    default:
        return (vf)word;
    }
}

/* A channel as an integer program reads it. */
static inline vi whole(vi word, unsigned n, unsigned texel)
{
    switch (texel) {
    case CPU_TEXEL_U8:
    case CPU_TEXEL_S8:
        return channel(word, n, 8, texel == CPU_TEXEL_S8);
    case CPU_TEXEL_U16:
    case CPU_TEXEL_S16:
        return channel(word, n, 16, texel == CPU_TEXEL_S16);
    default:
        return word;
    }
}

typedef struct {
    vi offset, inside;
    vf weight;
} corner_t;

static inline __attribute__((always_inline)) corner_t corner_of(const job_t *j, const axis_t *axis,
                                                                vi slice, unsigned k)
{
    corner_t c = {.offset = slice, .inside = vi_all(-1), .weight = vf_all(1.0f)};
    for (unsigned d = 0; d < j->dims; d++) {
        unsigned second = k >> d & 1;
        c.offset += axis[d].at[second];
        c.inside &= axis[d].inside[second];
        if (j->linear) {
            c.weight *= axis[d].weight[second];
        }
    }
    return c;
}

/* The texels of corners k and k + 1, which differ in x. `side_by_side`: they do in every lane. */
static inline __attribute__((always_inline)) void
load_corners(const job_t *j, const corner_t corner[2], bool side_by_side, vi out[2])
{
    if (side_by_side) {
        load_neighbours(j->level->data, corner[0].offset, out);
        return;
    }
    out[0] = load_words(j->level->data, corner[0].offset, j->image->bytes);
    if (j->linear) {
        out[1] = load_words(j->level->data, corner[1].offset, j->image->bytes);
    }
}

static inline __attribute__((always_inline)) void
add_texel(const job_t *j, const corner_t *c, vi word, unsigned texel, unsigned channels, vf sum[4])
{
    for (unsigned n = 0; n < channels; n++) {
        vf v = raw(word, n, texel);
        if (j->has_border) {
            v = vf_select(c->inside, v, vf_all(j->border[n]));
        }
        sum[n] = j->linear ? vf_fma(c->weight, v, sum[n]) : v;
    }
}

static inline __attribute__((always_inline)) void small_texels(const job_t *j, const axis_t *axis,
                                                               vi slice, unsigned texel,
                                                               unsigned channels, vi out[4])
{
    unsigned corners = j->linear ? 1u << j->dims : 1;
    bool side_by_side =
        j->linear && j->image->bytes == 4 && vi_same(axis[0].at[1], axis[0].at[0] + 4);
    vf sum[4] = {vf_all(0), vf_all(0), vf_all(0), vf_all(0)};
    for (unsigned k = 0; k < corners; k += 2) {
        corner_t corner[2] = {corner_of(j, axis, slice, k), corner_of(j, axis, slice, k + 1)};
        vi word[2];
        load_corners(j, corner, side_by_side, word);
        if (!j->floats) {
            for (unsigned n = 0; n < channels; n++) {
                out[n] = whole(word[0], n, texel);
            }
            return;
        }
        add_texel(j, &corner[0], word[0], texel, channels, sum);
        if (j->linear) {
            add_texel(j, &corner[1], word[1], texel, channels, sum);
        }
    }
    for (unsigned n = 0; n < channels; n++) {
        out[n] = (vi)(j->scale != 1.0f ? sum[n] / j->scale : sum[n]);
    }
}

/* ---- large texels: a lane's channels together ---- */

/* Four channels of eight or sixteen bytes, as a filter blends them, or as they are. */
static inline __m128 load_texel(const uint8_t *at, unsigned texel, bool floats)
{
    __m128i h;
    switch (texel) {
    case CPU_TEXEL_F16:
        return _mm_cvtph_ps(_mm_loadl_epi64((const __m128i *)at));
    case CPU_TEXEL_U16:
        h = _mm_cvtepu16_epi32(_mm_loadl_epi64((const __m128i *)at));
        return floats ? _mm_cvtepi32_ps(h) : _mm_castsi128_ps(h);
    case CPU_TEXEL_S16:
        h = _mm_cvtepi16_epi32(_mm_loadl_epi64((const __m128i *)at));
        return floats ? _mm_cvtepi32_ps(_mm_max_epi32(h, _mm_set1_epi32(-32767)))
                      : _mm_castsi128_ps(h);
    default:
        return _mm_loadu_ps((const float *)at);
    }
}

/* Two words: the ones behind them are not ours to read. */
static inline __m128 load_pair(const uint8_t *at)
{
    return _mm_castpd_ps(_mm_load_sd((const double *)at));
}

static inline __attribute__((always_inline)) __m128 one_lane(const job_t *j, const corner_t *corner,
                                                             unsigned corners, unsigned lane,
                                                             unsigned texel, bool pair)
{
    __m128 sum = _mm_setzero_ps();
    for (unsigned k = 0; k < corners; k++) {
        const uint8_t *at = j->level->data + (uint32_t)corner[k].offset[lane];
        __m128 v = pair ? load_pair(at) : load_texel(at, texel, j->floats);
        if (j->has_border && corner[k].inside[lane] == 0) {
            v = _mm_loadu_ps(j->border);
        }
        sum = j->linear ? _mm_fmadd_ps(_mm_set1_ps(corner[k].weight[lane]), v, sum) : v;
    }
    return sum;
}

static inline __attribute__((always_inline)) void
large_texels(const job_t *j, const axis_t *axis, vi slice, unsigned texel, bool pair, vi out[4])
{
    float columns[4][LANES] __attribute__((aligned(64)));
    corner_t corner[8];
    unsigned corners = j->linear ? 1u << j->dims : 1;
    for (unsigned k = 0; k < corners; k++) {
        corner[k] = corner_of(j, axis, slice, k);
    }
    for (unsigned l = 0; l < LANES; l += 4) {
        __m128 r[4];
        for (unsigned n = 0; n < 4; n++) {
            r[n] = one_lane(j, corner, corners, l + n, texel, pair);
        }
        _MM_TRANSPOSE4_PS(r[0], r[1], r[2], r[3]);
        for (unsigned n = 0; n < 4; n++) {
            _mm_store_ps(&columns[n][l], r[n]);
        }
    }
    for (unsigned n = 0; n < (pair ? 2 : 4); n++) {
        out[n] = vi_load((const uint32_t *)columns[n]);
        out[n] = j->scale != 1.0f ? (vi)((vf)out[n] / j->scale) : out[n];
    }
}

/* ---- what the job is ---- */

static inline __attribute__((always_inline)) void texels(const job_t *j, const axis_t *axis,
                                                         vi slice, vi out[4])
{
    const cpu_tex_image_t *image = j->image;
    unsigned texel = image->texel, channels = image->channels;
    if (image->bytes == 16 || image->bytes == 8) {
        if (channels == 2) {
            large_texels(j, axis, slice, CPU_TEXEL_F32, true, out);
        } else if (image->bytes == 16) {
            large_texels(j, axis, slice, CPU_TEXEL_F32, false, out);
        } else {
            large_texels(j, axis, slice, texel, false, out);
        }
    } else if (texel == CPU_TEXEL_F32) { /* the most frequent ones get code of their own */
        small_texels(j, axis, slice, CPU_TEXEL_F32, 1, out);
    } else if (texel == CPU_TEXEL_U8 && channels == 4) {
        small_texels(j, axis, slice, CPU_TEXEL_U8, 4, out);
    } else if (texel == CPU_TEXEL_U8 && channels == 1) {
        small_texels(j, axis, slice, CPU_TEXEL_U8, 1, out);
    } else {
        small_texels(j, axis, slice, texel, channels, out);
    }
}

/* The byte offset of a lane's layer. */
static inline vi layers(const job_t *j, const cpu_tex_what_t *what, const cpu_tex_args_t *args,
                        unsigned first)
{
    if (!what->op.layered) {
        return vi_all(0);
    }
    vi layer = vi_load(&args->args[CPU_TEX_ARG_LAYER][first]);
    layer = vi_min(vi_max(layer, vi_all(0)), vi_all((int32_t)j->level->depth - 1));
    return layer * (int32_t)j->level->slice;
}

static void store_active(uint32_t *to, vi v, uint32_t mask)
{
    const uint32_t all = LANES == 16 ? 0xffff : 0xff;
    if ((mask & all) == all) {
        vi_store(to, v);
        return;
    }
    vi bit = vi_all(1) << vi_iota(), on = (vi_all((int32_t)mask) & bit) != 0;
    vi_store(to, vi_select(on, v, vi_load(to)));
}

/* Integer coordinates of linear memory: an index, and 0 outside. */
static void fetch_lanes(const job_t *job, const cpu_tex_what_t *what, const cpu_tex_args_t *args,
                        unsigned first, vi out[4])
{
    job_t own = *job, *j = &own;
    own.dims = 1;
    own.linear = false;
    (void)what;
    vi i = vi_load(&args->args[CPU_TEX_ARG_AT][first]);
    axis_t axis = {.weight = {vf_all(0.0f), vf_all(0.0f)}};
    axis.at[0] = place(i, j->level->width, CPU_ADDRESS_CLAMP, &axis.inside[0]) * j->image->bytes;
    texels(j, &axis, vi_all(0), out);
    for (unsigned n = 0; n < j->image->channels; n++) {
        out[n] &= axis.inside[0];
    }
}

typedef void sample_fn(const job_t *job, const cpu_tex_what_t *what, const cpu_tex_args_t *args,
                       unsigned first, vi out[4]);

static inline __attribute__((always_inline)) void
sample_lanes(const job_t *job, unsigned dims, bool linear_filter, const cpu_tex_what_t *what,
             const cpu_tex_args_t *args, unsigned first, vi out[4])
{
    axis_t axis[3];
    job_t j = *job;
    j.dims = dims;
    j.linear = linear_filter;
    for (unsigned d = 0; d < dims; d++) {
        axis[d] = axis_of(&j, d, (vf)vi_load(&args->args[CPU_TEX_ARG_AT + d][first]));
    }
    texels(&j, axis, layers(&j, what, args, first), out);
}

static void point_1(const job_t *j, const cpu_tex_what_t *what, const cpu_tex_args_t *args,
                    unsigned first, vi out[4])
{
    sample_lanes(j, 1, false, what, args, first, out);
}

static void point_2(const job_t *j, const cpu_tex_what_t *what, const cpu_tex_args_t *args,
                    unsigned first, vi out[4])
{
    sample_lanes(j, 2, false, what, args, first, out);
}

static void point_3(const job_t *j, const cpu_tex_what_t *what, const cpu_tex_args_t *args,
                    unsigned first, vi out[4])
{
    sample_lanes(j, 3, false, what, args, first, out);
}

static void linear_1(const job_t *j, const cpu_tex_what_t *what, const cpu_tex_args_t *args,
                     unsigned first, vi out[4])
{
    sample_lanes(j, 1, true, what, args, first, out);
}

static void linear_2(const job_t *j, const cpu_tex_what_t *what, const cpu_tex_args_t *args,
                     unsigned first, vi out[4])
{
    sample_lanes(j, 2, true, what, args, first, out);
}

static void linear_3(const job_t *j, const cpu_tex_what_t *what, const cpu_tex_args_t *args,
                     unsigned first, vi out[4])
{
    sample_lanes(j, 3, true, what, args, first, out);
}

static bool is_plain(const cpu_tex_image_t *image, const cpu_tex_sampler_t *s,
                     const cpu_tex_what_t *what)
{
    const cpu_tex_level_t *l = &image->level[0];
    bool shape = what->op.geometry == PTX_TEX_1D || what->op.geometry == PTX_TEX_2D ||
                 what->op.geometry == PTX_TEX_3D || what->op.geometry == PTX_TEX_A1D ||
                 what->op.geometry == PTX_TEX_A2D;
    return shape && what->op.op == PTX_OP_TEX && image->levels == 1 && !what->offset && !s->srgb &&
           image->fetch == what->op.integer && l->slice * l->depth < INT32_MAX;
}

/* Every mode with a border, on a dimension that the instruction has. */
static bool uses_border(const cpu_tex_sampler_t *s, unsigned dims)
{
    for (unsigned d = 0; d < dims; d++) {
        if (mode_of(s, d) == CPU_ADDRESS_BORDER) {
            return true;
        }
    }
    return false;
}

bool CPU_TEX_FAST_NAME(const cpu_tex_image_t *image, const cpu_tex_sampler_t *sampler,
                       const cpu_tex_what_t *what, uint32_t mask, cpu_tex_args_t *args)
{
    job_t j = {.image = image,
               .sampler = sampler,
               .level = &image->level[0],
               .dims = what->op.coordinates};
    if (!is_plain(image, sampler, what)) {
        return false;
    }
    j.floats = image->texel >= CPU_TEXEL_F16 || sampler->to_float;
    j.linear = sampler->linear && j.floats && !what->op.integer;
    j.has_border = !image->fetch && uses_border(sampler, j.dims);
    if (j.has_border && !j.floats) {
        return false; /* a border to be made an integer */
    }
    j.scale = cpu_texel_scale(image, sampler);
    for (unsigned n = 0; n < image->channels; n++) {
        j.border[n] = sampler->border[n] * j.scale;
    }
    static sample_fn *const functions[2][4] = {{0, point_1, point_2, point_3},
                                               {0, linear_1, linear_2, linear_3}};
    sample_fn *sample = image->fetch ? fetch_lanes : functions[j.linear][j.dims];
    for (unsigned first = 0; first < 32 && mask >> first != 0; first += LANES) {
        uint32_t part = mask >> first;
        vi out[4];
        if ((part & (LANES == 16 ? 0xffff : 0xff)) == 0) {
            continue;
        }
        for (unsigned n = image->channels; n < 4; n++) {
            out[n] = vi_all(0);
        }
        sample(&j, what, args, first, out);
        for (unsigned n = 0; n < 4; n++) {
            store_active(&args->args[n][first], out[n], part);
        }
    }
    return true;
}
