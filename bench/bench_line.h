/* bench_line.h - the output that all benchmarks share: JSON lines with --json, a table without. */
#ifndef BENCH_LINE_H
#define BENCH_LINE_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Prints a number, or null for NaN. */
static inline void bench_number(const char *key, double value)
{
    if (isnan(value))
        printf(",\"%s\":null", key);
    else
        printf(",\"%s\":%.6g", key, value);
}

/* One result; floor, peer and ratio may be NAN. */
static inline void bench_line(int json, const char *bench, const char *metric, double value,
                              const char *unit, double floor, double peer, double ratio)
{
    if (json) {
        printf("{\"bench\":\"%s\",\"metric\":\"%s\"", bench, metric);
        bench_number("value", value);
        printf(",\"unit\":\"%s\"", unit);
        bench_number("floor", floor);
        bench_number("peer", peer);
        bench_number("ratio", ratio);
        puts("}");
    } else {
        printf("%-16s %-22s %10.4g %-8s floor %-10.4g peer %-10.4g ratio %.4g\n", bench, metric,
               value, unit, floor, peer, ratio);
    }
    fflush(stdout);
}

/* The same for a value that a target is promised for: ratio is value over target. */
static inline void bench_promise(int json, const char *bench, const char *metric, double value,
                                 const char *unit, double target, double floor, double peer)
{
    if (json) {
        printf("{\"bench\":\"%s\",\"metric\":\"%s\"", bench, metric);
        bench_number("value", value);
        printf(",\"unit\":\"%s\"", unit);
        bench_number("target", target);
        bench_number("floor", floor);
        bench_number("peer", peer);
        bench_number("ratio", value / target);
        puts("}");
    } else {
        printf("%-8s %-24s %10.4g %-6s target %-8.4g floor %-10.4g peer %-10.4g ratio %.3g\n",
               bench, metric, value, unit, target, floor, peer, value / target);
    }
    fflush(stdout);
}

static inline int bench_compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Median; sorts the values. */
static inline double bench_median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof(*values), bench_compare);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

#endif
