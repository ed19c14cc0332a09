/* facts.h - numbers that two headers must agree on. */
#ifndef FACTS_H
#define FACTS_H

typedef struct {
    const char *what;
    long long value;
} fact_t;

extern const fact_t facts_ours[], facts_toolkit[];
extern const unsigned facts_ours_count, facts_toolkit_count;

#endif
