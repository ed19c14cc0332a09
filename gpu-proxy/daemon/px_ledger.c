#include "gpu-proxy/daemon/px_ledger.h"

/* What is left of `limit` (0 = no limit) when `taken` is held. */
static uint64_t room(uint64_t limit, uint64_t taken)
{
    if (!limit)
        return UINT64_MAX;
    return taken < limit ? limit - taken : 0;
}

px_account_answer_t px_ledger_decide(px_share_t *const *shares, size_t count, px_share_t *mine,
                                     const uint64_t memory[PX_DEVICES],
                                     const px_account_wish_t *wish)
{
    uint64_t all = 0, of_lease = 0;
    uint32_t at = wish->ordinal;
    if (at >= PX_DEVICES)
        return (px_account_answer_t){0, 0};
    for (size_t i = 0; i < count; i++) {
        if (!shares[i])
            continue;
        uint64_t taken = shares[i]->kept[at] + (shares[i] == mine ? 0 : shares[i]->held[at]);
        all += taken;
        of_lease += shares[i]->lease == mine->lease ? taken : 0;
    }
    uint64_t most = room(memory[at], all), most_of_lease = room(mine->quota, of_lease);
    most = most < most_of_lease ? most : most_of_lease;
    if (wish->want <= most || wish->want <= mine->held[at])
        mine->held[at] = wish->want;
    uint64_t held = mine->held[at];
    return (px_account_answer_t){held, most > held ? most - held : 0};
}
