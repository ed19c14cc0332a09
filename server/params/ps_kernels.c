/* The loops are written once, inlined into one function per instruction set, and chosen once at run
 * time (not by ifunc: its resolvers run before a sanitizer is ready). The file is compiled with
 * -O3 -ffp-contract=off: contraction would change bits between machines. */
#include "server/params/ps_kernels.h"

#include <math.h>
#include <stddef.h>

#define PS_INLINE static inline __attribute__((always_inline))

ps_step_t ps_step_at(const ps_optimizer_t *optimizer, uint64_t clock)
{
    ps_step_t step = {optimizer->lr, optimizer->momentum, optimizer->weight_decay,
                      optimizer->nesterov};
    if (optimizer->schedule == PS_LR_STEP && optimizer->lr_step > 0)
        step.lr = (float)((double)optimizer->lr *
                          pow((double)optimizer->lr_gamma, (double)(clock / optimizer->lr_step)));
    return step;
}

PS_INLINE void mean_block(float *mean, uint32_t n, uint32_t at, uint32_t count,
                          const float *const *gradient, const float *scale)
{
    int first = 1;
    for (uint32_t i = 0; i < count; i++) {
        const float *g = gradient[i] + at;
        const float s = scale[i];
        if (s == 0)
            continue;
        if (first) {
            for (uint32_t k = 0; k < n; k++)
                mean[k] = s * g[k];
        } else {
            for (uint32_t k = 0; k < n; k++)
                mean[k] += s * g[k];
        }
        first = 0;
    }
    for (uint32_t k = 0; first && k < n; k++)
        mean[k] = 0;
}

PS_INLINE void decay_block(float *mean, uint32_t n, float decay, const float *w)
{
    for (uint32_t k = 0; k < n; k++)
        mean[k] += decay * w[k];
}

/* In and out may be the same array: ivdep tells that elements do not depend on each other. */
PS_INLINE void plain_block(const float *mean, uint32_t n, float lr, const float *w, float *w_out)
{
#pragma GCC ivdep
    for (uint32_t k = 0; k < n; k++)
        w_out[k] = w[k] - lr * mean[k];
}

PS_INLINE void momentum_block(const float *mean, uint32_t n, float lr, float m, const float *w,
                              float *w_out, const float *v, float *v_out)
{
#pragma GCC ivdep
    for (uint32_t k = 0; k < n; k++) {
        float x = m * v[k] + mean[k];
        v_out[k] = x;
        w_out[k] = w[k] - lr * x;
    }
}

PS_INLINE void nesterov_block(const float *mean, uint32_t n, float lr, float m, const float *w,
                              float *w_out, const float *v, float *v_out)
{
#pragma GCC ivdep
    for (uint32_t k = 0; k < n; k++) {
        float x = m * v[k] + mean[k];
        v_out[k] = x;
        w_out[k] = w[k] - lr * (mean[k] + m * x);
    }
}

PS_INLINE void apply_all(const ps_step_t *step, uint32_t elements, uint32_t count,
                         const float *const *gradient, const float *scale, const float *w,
                         float *w_out, const float *v, float *v_out)
{
    _Alignas(64) float mean[PS_BLOCK];
    for (uint32_t at = 0; at < elements; at += PS_BLOCK) {
        uint32_t n = elements - at < PS_BLOCK ? elements - at : PS_BLOCK;
        mean_block(mean, n, at, count, gradient, scale);
        if (step->weight_decay != 0)
            decay_block(mean, n, step->weight_decay, w + at);
        if (step->momentum == 0)
            plain_block(mean, n, step->lr, w + at, w_out + at);
        else if (step->nesterov)
            nesterov_block(mean, n, step->lr, step->momentum, w + at, w_out + at, v + at,
                           v_out + at);
        else
            momentum_block(mean, n, step->lr, step->momentum, w + at, w_out + at, v + at,
                           v_out + at);
    }
}

typedef void (*apply_t)(const ps_step_t *step, uint32_t elements, uint32_t count,
                        const float *const *gradient, const float *scale, const float *w,
                        float *w_out, const float *v, float *v_out);

static void apply_plain(const ps_step_t *step, uint32_t elements, uint32_t count,
                        const float *const *gradient, const float *scale, const float *w,
                        float *w_out, const float *v, float *v_out)
{
    apply_all(step, elements, count, gradient, scale, w, w_out, v, v_out);
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static void apply_avx2(const ps_step_t *step, uint32_t elements,
                                                       uint32_t count, const float *const *gradient,
                                                       const float *scale, const float *w,
                                                       float *w_out, const float *v, float *v_out)
{
    apply_all(step, elements, count, gradient, scale, w, w_out, v, v_out);
}

__attribute__((target("avx512f,prefer-vector-width=512"))) static void
apply_avx512(const ps_step_t *step, uint32_t elements, uint32_t count, const float *const *gradient,
             const float *scale, const float *w, float *w_out, const float *v, float *v_out)
{
    apply_all(step, elements, count, gradient, scale, w, w_out, v, v_out);
}
#endif

typedef struct {
    apply_t apply;
    const char *name;
} variant_t;

static variant_t pick(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f"))
        return (variant_t){apply_avx512, "avx512"};
    if (__builtin_cpu_supports("avx2"))
        return (variant_t){apply_avx2, "avx2"};
#endif
    return (variant_t){apply_plain, "plain"};
}

void ps_apply(const ps_step_t *step, uint32_t elements, uint32_t count,
              const float *const *gradient, const float *scale, const float *weights,
              float *weights_out, const float *velocity, float *velocity_out)
{
    /* A look at two words of libgcc's CPU model; nothing beside a chunk's arithmetic. */
    pick().apply(step, elements, count, gradient, scale, weights, weights_out, velocity,
                 velocity_out);
}

const char *ps_kernels_name(void)
{
    return pick().name;
}
