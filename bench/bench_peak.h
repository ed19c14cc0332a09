/* bench_peak.h - the processor's fp32 peak, measured. */
#ifndef BENCH_PEAK_H
#define BENCH_PEAK_H

/* FLOP/s of fused multiply-adds in registers (an FMA is two), all of `threads` threads together. */
double bench_peak_flops(int threads);

#endif
