/* forms.h - the instructions of the PTX ISA manual, section by section: what the coverage table asks
 * about. Nothing here says what is covered. */
#ifndef COVERAGE_FORMS_H
#define COVERAGE_FORMS_H

/* A pattern of mnemonics: "(a|b|)" stands for each alternative in turn, the last may be empty.
 * Operands are separated by blanks: 1 and 2 are registers of the mnemonic's first and second type, W
 * one twice as wide as the first, everything else stands for itself. A row without a pattern begins
 * the section that `operands` names. */
typedef struct {
    const char *pattern, *operands;
} form_t;

extern const form_t coverage_forms[];
extern const unsigned coverage_form_count;

#endif
