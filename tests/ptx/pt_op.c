/* What a mnemonic says, read without the parser under test. */
#include "tests/ptx/pt_row.h"

#include <fenv.h>
#include <stdio.h>
#include <string.h>

static bool read_type(const char *word, size_t length, char *name, unsigned *bits, bool *is_signed,
                      bool *is_float)
{
    if (length < 2 || length > 4 || !strchr("subf", word[0]))
        return false;
    unsigned n = 0;
    for (size_t i = 1; i < length; i++) {
        if (word[i] < '0' || word[i] > '9')
            return false;
        n = n * 10 + (unsigned)(word[i] - '0');
    }
    snprintf(name, 8, "%.*s", (int)length, word);
    *bits = n;
    *is_signed = word[0] == 's';
    *is_float = word[0] == 'f';
    return true;
}

static void read_word(pt_op_t *op, const char *word, size_t length)
{
    static const struct {
        char word[4];
        int round;
        bool integral;
    } rounds[] = {{"rn", FE_TONEAREST, false}, {"rz", FE_TOWARDZERO, false},
                  {"rm", FE_DOWNWARD, false},  {"rp", FE_UPWARD, false},
                  {"rni", FE_TONEAREST, true}, {"rzi", FE_TOWARDZERO, true},
                  {"rmi", FE_DOWNWARD, true},  {"rpi", FE_UPWARD, true}};
    for (size_t i = 0; i < sizeof rounds / sizeof rounds[0]; i++) {
        if (strlen(rounds[i].word) == length && strncmp(rounds[i].word, word, length) == 0) {
            op->round = rounds[i].round;
            op->integral = rounds[i].integral;
        }
    }
    op->ftz |= length == 3 && strncmp(word, "ftz", 3) == 0;
    op->sat |= length == 3 && strncmp(word, "sat", 3) == 0;
}

pt_op_t pt_read_mnemonic(const char *mnemonic)
{
    pt_op_t op = {.mnemonic = mnemonic, .round = FE_TONEAREST};
    unsigned types = 0;
    for (const char *p = strchr(mnemonic, '.'); p && *p == '.';) {
        size_t length = strcspn(++p, ".");
        bool first = types == 0;
        if (read_type(p, length, first ? op.type : op.type2, first ? &op.bits : &op.bits2,
                      first ? &op.is_signed : &op.is_signed2, first ? &op.is_float : &op.is_float2))
            types++;
        else
            read_word(&op, p, length);
        p += length;
    }
    if (types == 1) {
        memcpy(op.type2, op.type, sizeof op.type);
        op.bits2 = op.bits;
        op.is_signed2 = op.is_signed;
        op.is_float2 = op.is_float;
    }
    return op;
}
