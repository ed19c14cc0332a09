/* Sampling one lane: addressing modes, filters, mipmaps and cube maps as the CUDA programming guide's
 * appendix on texture fetching has them. Weights have 8 fractional bits. */
#include "gpu-proxy/cpu/jit/texture.h"
#include "gpu-proxy/cpu/ptx/ptx_ir.h"

#include <math.h>
#include <string.h>

static float float_of(uint32_t w)
{
    float f;
    memcpy(&f, &w, 4);
    return f;
}

static uint32_t bits_of(float f)
{
    uint32_t w;
    memcpy(&w, &f, 4);
    return w;
}

/* ---- one dimension ---- */

/* Wrap and mirror exist only for normalised coordinates. */
static unsigned mode_of(const cpu_tex_sampler_t *s, unsigned d)
{
    unsigned mode = s->address[d];
    return !s->normalised && (mode == CPU_ADDRESS_WRAP || mode == CPU_ADDRESS_MIRROR)
               ? CPU_ADDRESS_CLAMP
               : mode;
}

/* A coordinate in texels. */
static float in_texels(float x, uint32_t size, unsigned mode, bool normalised)
{
    if (!normalised) {
        return x;
    }
    float whole = floorf(x);
    if (mode == CPU_ADDRESS_WRAP) {
        x -= whole;
    } else if (mode == CPU_ADDRESS_MIRROR) {
        x -= whole;
        x = whole - 2.0f * floorf(whole * 0.5f) != 0.0f ? 1.0f - x : x;
    }
    return x * (float)size;
}

/* floor(x) within [-2, size], so that it fits an int; NaN becomes 0. */
static int32_t whole_of(float x, uint32_t size)
{
    float f = floorf(x);
    f = f >= -2.0f ? f : isnan(f) ? 0.0f : -2.0f;
    return f <= (float)size ? (int32_t)f : (int32_t)size;
}

/* An index as the mode has it; -1: border. */
static int32_t place(int64_t i, uint32_t size, unsigned mode)
{
    int64_t n = size;
    if (i >= 0 && i < n) {
        return (int32_t)i;
    }
    switch (mode) {
    case CPU_ADDRESS_WRAP:
        return (int32_t)((i % n + n) % n);
    case CPU_ADDRESS_MIRROR:
        i = (i % (2 * n) + 2 * n) % (2 * n);
        return (int32_t)(i < n ? i : 2 * n - 1 - i);
    case CPU_ADDRESS_BORDER:
        return -1;
    default:
        return i < 0 ? 0 : (int32_t)(n - 1);
    }
}

/* One or two texels of a dimension, and the second one's weight. */
typedef struct {
    int64_t first;
    float weight;
    unsigned mode;
    uint32_t size;
} axis_t;

static axis_t axis_point(float x, uint32_t size, unsigned mode, bool normalised)
{
    return (axis_t){whole_of(in_texels(x, size, mode, normalised), size), 0.0f, mode, size};
}

static axis_t axis_linear(float x, uint32_t size, unsigned mode, bool normalised)
{
    float t = in_texels(x, size, mode, normalised) - 0.5f, f = t - floorf(t);
    f = floorf(f * 256.0f + 0.5f) * (1.0f / 256.0f);
    return (axis_t){whole_of(t, size), f >= 0.0f ? f : 0.0f, mode, size};
}

/* ---- cube maps ---- */

/* The face that a direction goes through, and where: s and t in [0, 1]. */
static unsigned cube_face(const float d[3], float *s, float *t)
{
    float x = fabsf(d[0]), y = fabsf(d[1]), z = fabsf(d[2]), m, sc, tc;
    unsigned face;
    if (x >= y && x >= z) {
        face = d[0] >= 0.0f ? 0 : 1;
        m = x;
        sc = face == 0 ? -d[2] : d[2];
        tc = -d[1];
    } else if (y >= z) {
        face = d[1] >= 0.0f ? 2 : 3;
        m = y;
        sc = d[0];
        tc = face == 2 ? d[2] : -d[2];
    } else {
        face = d[2] >= 0.0f ? 4 : 5;
        m = z;
        sc = face == 4 ? d[0] : -d[0];
        tc = -d[1];
    }
    *s = (sc / m + 1.0f) * 0.5f;
    *t = (tc / m + 1.0f) * 0.5f;
    return face;
}

/* The direction of a point of a face's plane, s and t in [-1, 1] or beyond. */
static void cube_direction(unsigned face, float s, float t, float d[3])
{
    switch (face) {
    case 0:
        d[0] = 1.0f, d[1] = -t, d[2] = -s;
        break;
    case 1:
        d[0] = -1.0f, d[1] = -t, d[2] = s;
        break;
    case 2:
        d[0] = s, d[1] = 1.0f, d[2] = t;
        break;
    case 3:
        d[0] = s, d[1] = -1.0f, d[2] = -t;
        break;
    case 4:
        d[0] = s, d[1] = -t, d[2] = 1.0f;
        break;
    default:
        d[0] = -s, d[1] = -t, d[2] = -1.0f;
    }
}

/* ---- texels ---- */

typedef struct {
    const cpu_tex_image_t *image;
    const cpu_tex_sampler_t *sampler;
    const cpu_tex_level_t *level;
    bool seam; /* indices outside a face go to its neighbour */
} source_t;

static void border(const source_t *s, uint32_t out[4])
{
    static const struct {
        float low, high;
    } ranges[] = {[CPU_TEXEL_U8] = {0, 255},
                  [CPU_TEXEL_U16] = {0, 65535},
                  [CPU_TEXEL_U32] = {0, 4294967040.0f},
                  [CPU_TEXEL_S8] = {-128, 127},
                  [CPU_TEXEL_S16] = {-32768, 32767},
                  [CPU_TEXEL_S32] = {-2147483648.0f, 2147483520.0f}};
    unsigned texel = s->image->texel;
    memset(out, 0, 4 * sizeof out[0]);
    for (unsigned c = 0; c < s->image->channels; c++) {
        float v = s->sampler->border[c];
        if (s->sampler->to_float || texel >= CPU_TEXEL_F16) {
            out[c] = bits_of(v);
            continue;
        }
        v = v >= ranges[texel].low ? v : ranges[texel].low;
        v = v <= ranges[texel].high ? v : ranges[texel].high;
        out[c] = (uint32_t)(int64_t)rintf(v);
    }
}

/* Where the texel of three indices is; NULL: border. */
static const uint8_t *texel(const source_t *s, int32_t x, int32_t y, int32_t z)
{
    if (x < 0 || y < 0 || z < 0) {
        return NULL;
    }
    const cpu_tex_level_t *l = s->level;
    return l->data + (uint64_t)z * l->slice + (uint64_t)y * l->row + (uint64_t)x * s->image->bytes;
}

/* A texel one step outside a face: of the face that lies there. */
static const uint8_t *beyond(const source_t *s, int64_t x, int64_t y, int32_t z)
{
    float n = (float)s->level->width, d[3], u, v;
    cube_direction((unsigned)z % 6, (2.0f * (float)x + 1.0f) / n - 1.0f,
                   (2.0f * (float)y + 1.0f) / n - 1.0f, d);
    unsigned face = cube_face(d, &u, &v);
    int32_t i = place(whole_of(u * n, s->level->width), s->level->width, CPU_ADDRESS_CLAMP);
    int32_t j = place(whole_of(v * n, s->level->width), s->level->width, CPU_ADDRESS_CLAMP);
    return texel(s, i, j, z - z % 6 + (int32_t)face);
}

/* Corner k of a footprint: bit d says which texel of dimension d. */
static const uint8_t *corner_at(const source_t *s, const axis_t axis[3], unsigned corner)
{
    int64_t i[3];
    for (unsigned d = 0; d < 3; d++) {
        i[d] = axis[d].first + (corner >> d & 1);
    }
    if (s->seam && (i[0] < 0 || i[1] < 0 || i[0] >= axis[0].size || i[1] >= axis[1].size)) {
        return beyond(s, i[0], i[1], (int32_t)i[2]);
    }
    int32_t at[3];
    for (unsigned d = 0; d < 3; d++) {
        at[d] = place(i[d], axis[d].size, axis[d].mode);
    }
    return texel(s, at[0], at[1], at[2]);
}

static void texel_at(const source_t *s, const axis_t axis[3], unsigned corner, uint32_t out[4])
{
    const uint8_t *at = corner_at(s, axis, corner);
    if (at == NULL) {
        border(s, out);
    } else {
        cpu_texel_read(s->image, s->sampler, at, out);
    }
}

/* The same for a filter, times `scale`. */
static void raw_at(const source_t *s, const axis_t axis[3], unsigned corner, float scale,
                   float out[4])
{
    const uint8_t *at = corner_at(s, axis, corner);
    if (at != NULL) {
        cpu_texel_raw(s->image, s->sampler, at, out);
        return;
    }
    for (unsigned c = 0; c < 4; c++) {
        out[c] = c < s->image->channels ? s->sampler->border[c] * scale : 0.0f;
    }
}

/* Where three faces meet there is no fourth texel: the mean of the three stands for it. */
static void fill_corner(const source_t *s, const axis_t axis[3], float texels[4][4])
{
    bool low = axis[0].first < 0, high = axis[0].first + 1 >= axis[0].size;
    bool top = axis[1].first < 0, bottom = axis[1].first + 1 >= axis[1].size;
    if (!s->seam || !(low || high) || !(top || bottom)) {
        return;
    }
    unsigned missing = (low ? 0 : 1) | (top ? 0 : 2);
    for (unsigned c = 0; c < 4; c++) {
        float sum = 0.0f;
        for (unsigned k = 0; k < 4; k++) {
            sum += k == missing ? 0.0f : texels[k][c];
        }
        texels[missing][c] = sum / 3.0f;
    }
}

/* ---- one level ---- */

static uint32_t layer_of(const cpu_tex_image_t *image, const cpu_tex_level_t *level, uint32_t layer)
{
    uint32_t most = image->cube ? level->depth / 6 : level->depth;
    int32_t l = (int32_t)layer; /* .u32 in PTX; a negative one is meant as such */
    return l < 0 ? 0 : (uint32_t)l < most ? (uint32_t)l : most - 1;
}

/* How many coordinates the instruction has, without the layer. */
static unsigned dimensions_of(unsigned geometry)
{
    switch (geometry) {
    case PTX_TEX_1D:
    case PTX_TEX_A1D:
        return 1;
    case PTX_TEX_3D:
        return 3;
    default:
        return 2;
    }
}

static bool is_layered(unsigned geometry)
{
    return geometry == PTX_TEX_A1D || geometry == PTX_TEX_A2D || geometry == PTX_TEX_ACUBE;
}

typedef struct {
    axis_t axis[3];
    unsigned count; /* dimensions that are filtered */
} footprint_t;

static footprint_t footprint(const source_t *s, const cpu_tex_read_t *read,
                             const cpu_tex_point_t *p, bool linear)
{
    const uint32_t size[3] = {s->level->width, s->level->height, s->level->depth};
    footprint_t f = {.count = dimensions_of(read->geometry)};
    bool cube = read->geometry == PTX_TEX_CUBE || read->geometry == PTX_TEX_ACUBE;
    float at[3] = {p->at.f[0], p->at.f[1], p->at.f[2]};
    uint32_t slice = is_layered(read->geometry) ? layer_of(s->image, s->level, p->layer) : 0;
    if (cube) {
        slice = slice * 6 + cube_face(p->at.f, &at[0], &at[1]);
        slice = slice < s->level->depth ? slice : s->level->depth - 1;
    }
    for (unsigned d = 0; d < 3; d++) {
        unsigned mode = cube ? CPU_ADDRESS_CLAMP : mode_of(s->sampler, d);
        if (d >= f.count) {
            f.axis[d] = (axis_t){d == 2 ? slice : 0, 0.0f, CPU_ADDRESS_CLAMP, size[d]};
        } else if (read->integer) {
            f.axis[d] = (axis_t){p->at.i[d], 0.0f, mode, size[d]};
        } else {
            f.axis[d] = linear ? axis_linear(at[d], size[d], mode, s->sampler->normalised || cube)
                               : axis_point(at[d], size[d], mode, s->sampler->normalised || cube);
        }
        if (d < f.count) {
            f.axis[d].first += p->offset[d];
        }
    }
    return f;
}

/* The weighted sum of 2, 4 or 8 texels. Integers are summed as they are and divided at the end. */
static void blend(const source_t *s, const footprint_t *f, uint32_t out[4])
{
    unsigned corners = 1u << f->count;
    float scale = cpu_texel_scale(s->image, s->sampler);
    float texels[8][4], sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    for (unsigned k = 0; k < corners; k++) {
        raw_at(s, f->axis, k, scale, texels[k]);
    }
    if (s->seam) {
        fill_corner(s, f->axis, texels);
    }
    for (unsigned k = 0; k < corners; k++) {
        float weight = 1.0f;
        for (unsigned d = 0; d < f->count; d++) {
            weight *= k >> d & 1 ? f->axis[d].weight : 1.0f - f->axis[d].weight;
        }
        for (unsigned c = 0; c < 4; c++) {
            sum[c] = fmaf(weight, texels[k][c], sum[c]);
        }
    }
    for (unsigned c = 0; c < 4; c++) {
        out[c] = bits_of(sum[c] / scale);
    }
}

/* (i0, j1), (i1, j1), (i1, j0), (i0, j0): counter-clockwise from the lower left. */
static void gather(const source_t *s, const footprint_t *f, unsigned component, uint32_t out[4])
{
    static const uint8_t corners[4] = {2, 3, 1, 0};
    for (unsigned k = 0; k < 4; k++) {
        uint32_t words[4];
        texel_at(s, f->axis, corners[k], words);
        out[k] = words[component];
    }
}

static bool reads_floats(const cpu_tex_image_t *image, const cpu_tex_sampler_t *sampler)
{
    return image->texel >= CPU_TEXEL_F16 || sampler->to_float;
}

static void sample_level(const cpu_tex_image_t *image, const cpu_tex_sampler_t *sampler,
                         const cpu_tex_read_t *read, const cpu_tex_point_t *point, uint32_t level,
                         uint32_t out[4])
{
    bool linear = sampler->linear && !read->integer && reads_floats(image, sampler);
    source_t s = {.image = image, .sampler = sampler, .level = &image->level[level]};
    bool footed = linear || read->how == CPU_TEX_GATHER;
    s.seam = image->cube && sampler->seamless && footed;
    footprint_t f = footprint(&s, read, point, footed);
    if (read->how == CPU_TEX_GATHER) {
        gather(&s, &f, read->component, out);
    } else if (linear) {
        blend(&s, &f, out);
    } else {
        texel_at(&s, f.axis, 0, out);
    }
}

/* ---- mipmaps ---- */

static float squared(const float d[3], const cpu_tex_level_t *l, bool normalised)
{
    const uint32_t size[3] = {l->width, l->height, l->depth};
    float sum = 0.0f;
    for (unsigned k = 0; k < 3; k++) {
        float v = d[k] * (normalised ? (float)size[k] : 1.0f);
        sum += v * v;
    }
    return sum;
}

static float level_of(const cpu_tex_image_t *image, const cpu_tex_sampler_t *s,
                      const cpu_tex_read_t *read, const cpu_tex_point_t *p)
{
    float level = 0.0f, most = (float)(image->levels - 1);
    if (read->how == CPU_TEX_LEVEL) {
        level = p->level + s->bias;
    } else if (read->how == CPU_TEX_GRADIENT) {
        float x = squared(p->dx, &image->level[0], s->normalised);
        float y = squared(p->dy, &image->level[0], s->normalised);
        level = 0.5f * log2f(x > y ? x : y) + s->bias;
    }
    level = level >= s->min_level ? level : s->min_level; /* NaN too */
    level = level <= s->max_level ? level : s->max_level;
    level = level <= most ? level : most;
    return level >= 0.0f ? level : 0.0f;
}

/* Linear memory has no modes: what is outside reads 0. */
static void fetch(const cpu_tex_image_t *image, const cpu_tex_sampler_t *sampler,
                  const cpu_tex_read_t *read, const cpu_tex_point_t *point, uint32_t out[4])
{
    int64_t i = read->integer ? point->at.i[0] : whole_of(point->at.f[0], image->level[0].width);
    i += point->offset[0];
    memset(out, 0, 4 * sizeof out[0]);
    if (i >= 0 && i < image->level[0].width) {
        cpu_texel_read(image, sampler, image->level[0].data + (uint64_t)i * image->bytes, out);
    }
}

void cpu_tex_sample(const cpu_tex_image_t *image, const cpu_tex_sampler_t *sampler,
                    const cpu_tex_read_t *read, const cpu_tex_point_t *point, uint32_t out[4])
{
    if (image->fetch) {
        fetch(image, sampler, read, point, out);
        return;
    }
    if (image->levels == 1) {
        sample_level(image, sampler, read, point, 0, out);
        return;
    }
    if (read->integer) { /* .s32 has no filter: the level is a number */
        float level = read->how == CPU_TEX_LEVEL ? point->level : 0.0f;
        uint32_t n = level > 0.0f ? (uint32_t)fminf(level, (float)(image->levels - 1)) : 0;
        sample_level(image, sampler, read, point, n, out);
        return;
    }
    float level = level_of(image, sampler, read, point);
    if (!sampler->mip_linear || !reads_floats(image, sampler)) {
        sample_level(image, sampler, read, point, (uint32_t)floorf(level + 0.5f), out);
        return;
    }
    uint32_t first = (uint32_t)level, other[4];
    float weight = floorf((level - (float)first) * 256.0f + 0.5f) * (1.0f / 256.0f);
    sample_level(image, sampler, read, point, first, out);
    if (weight == 0.0f) {
        return;
    }
    sample_level(image, sampler, read, point, first + 1, other);
    for (unsigned c = 0; c < 4; c++) {
        out[c] = bits_of((1.0f - weight) * float_of(out[c]) + weight * float_of(other[c]));
    }
}
