/* How running kernels share the SMs, as time passes: a fluid model. Between two changes every kernel progresses at the
 * rate its SMs give it; whoever holds the card's lock may work the model forward up to now.
 *
 * A finished kernel holds the model back until its process has seen it (or SI_GRACE_NS have passed), so that the next
 * kernel of that stream starts at the very moment the last one ended, however late the operating system woke us. */
#include "card.h"

#include <math.h>
#include <string.h>

#define SI_GRACE_NS 2000000 /* of real time */

static bool is_active(const struct si_card *card, const struct si_entry *entry)
{
    return entry->state == SI_LIVE && entry->arrive_ns <= card->now_ns;
}

static bool has_active(const struct si_card *card, uint32_t slot)
{
    for (int i = 0; i < (int)card->high; i++) {
        if (card->entries[i].slot == slot && is_active(card, &card->entries[i])) return true;
    }
    return false;
}

static uint32_t next_with_work(const struct si_card *card, uint32_t after)
{
    for (uint32_t step = 1; step < SI_PROCS; step++) {
        uint32_t slot = (after + step) % SI_PROCS;
        if (has_active(card, slot)) return slot;
    }
    return after;
}

/* One process at a time, in turn; one that has nothing to do gives the rest of its slice away. */
static void take_turns(struct si_card *card)
{
    if (has_active(card, card->turn) && card->now_ns < card->turn_end_ns) return;
    card->turn = next_with_work(card, card->turn);
    card->turn_end_ns = card->now_ns + (int64_t)card->slice_ns;
}

/* Of two that may use an SM: higher priority first, then who holds fewer, then who came first. */
static bool goes_before(const struct si_entry *a, const struct si_entry *b)
{
    if (a->rank != b->rank) return a->rank < b->rank;
    if (a->sms_now != b->sms_now) return a->sms_now < b->sms_now;
    return a->order < b->order;
}

static void give(struct si_entry *entry, uint32_t sm)
{
    entry->sms_now++;
    si_mask_add(&entry->held, sm);
}

static void give_to_best(struct si_entry **who, int count, uint32_t sm)
{
    struct si_entry *best = NULL;
    for (int i = 0; i < count; i++) {
        if (!si_mask_has(&who[i]->allowed, sm) || who[i]->sms_now >= who[i]->most) continue;
        if (!best || goes_before(who[i], best)) best = who[i];
    }
    if (best) give(best, sm);
}

static int who_runs(struct si_card *card, struct si_entry **who)
{
    int count = 0;
    if (card->mode == SI_TIMESLICE) take_turns(card);
    for (int i = 0; i < (int)card->high; i++) {
        struct si_entry *entry = &card->entries[i];
        entry->sms_now = 0;
        memset(&entry->held, 0, sizeof entry->held);
        if (is_active(card, entry) && (card->mode == SI_MPS || entry->slot == card->turn)) who[count++] = entry;
    }
    return count;
}

static bool is_spinning(const struct si_entry *entry) { return entry->meets && !entry->has_met; }

/* A kernel that spins holds its SMs and gets nowhere. */
static double rate_of(const struct si_entry *entry)
{
    return is_spinning(entry) ? 0.0 : (double)entry->sms_now / entry->wanted;
}

/* Those of a collective that have begun find each other, even if they take turns on the card. */
static void meet(struct si_card *card, const struct si_entry *one)
{
    uint32_t here = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < (int)card->high; i++) {
            struct si_entry *entry = &card->entries[i];
            bool waits = entry->state == SI_LIVE && is_spinning(entry) && entry->start_ns >= 0;
            if (!waits || entry->company != one->company) continue;
            if (pass == 0) here++;
            else if (here >= one->meets) entry->has_met = 1;
        }
    }
}

/* SMs that few may use are given out first, so that a kernel with a wide choice leaves the narrow one its part. */
static void divide(struct si_card *card)
{
    struct si_entry *who[SI_ENTRIES];
    int count = who_runs(card, who), suitors[SI_WORDS * 64] = {0}, most = 0;
    for (uint32_t sm = 0; sm < card->sms; sm++) {
        for (int i = 0; i < count; i++) suitors[sm] += si_mask_has(&who[i]->allowed, sm);
        if (suitors[sm] > most) most = suitors[sm];
    }
    for (int few = 1; few <= most; few++) {
        for (uint32_t sm = 0; sm < card->sms; sm++) {
            if (suitors[sm] == few) give_to_best(who, count, sm);
        }
    }
    for (int i = 0; i < count; i++) {
        si_mask_join(&who[i]->used, &who[i]->held);
        if (who[i]->sms_now && who[i]->start_ns < 0) who[i]->start_ns = card->now_ns;
    }
    for (int i = 0; i < count; i++) {
        if (is_spinning(who[i])) meet(card, who[i]);
    }
}

static int64_t end_of(const struct si_card *card, const struct si_entry *entry)
{
    return card->now_ns + (int64_t)ceil(entry->left_ns / rate_of(entry));
}

static int64_t next_change(const struct si_card *card)
{
    int64_t next = SI_NEVER;
    bool others = false;
    for (int i = 0; i < (int)card->high; i++) {
        const struct si_entry *entry = &card->entries[i];
        if (entry->state != SI_LIVE) continue;
        int64_t at = SI_NEVER;
        if (entry->arrive_ns > card->now_ns) at = entry->arrive_ns;
        else if (entry->sms_now && !is_spinning(entry)) at = end_of(card, entry);
        if (at < next) next = at;
        others |= entry->slot != card->turn && is_active(card, entry);
    }
    if (card->mode == SI_TIMESLICE && others && card->turn_end_ns < next) next = card->turn_end_ns;
    return next;
}

static void move_to(struct si_card *card, int64_t to_ns)
{
    double passed = (double)(to_ns - card->now_ns);
    if (passed <= 0) return;
    for (int i = 0; i < (int)card->high; i++) {
        struct si_entry *entry = &card->entries[i];
        if (entry->state != SI_LIVE || !entry->sms_now) continue;
        entry->left_ns -= passed * rate_of(entry);
        entry->sm_ns += passed * entry->sms_now;
    }
    card->now_ns = to_ns;
}

static void settle(struct si_card *card, uint32_t me)
{
    for (int i = 0; i < (int)card->high; i++) {
        struct si_entry *entry = &card->entries[i];
        if (entry->state != SI_LIVE || !entry->sms_now || is_spinning(entry) || entry->left_ns > 0.5) continue;
        entry->state = SI_FINISHED;
        entry->end_ns = card->now_ns;
        if (entry->slot != me) si_card_wake(card, (int)entry->slot);
    }
}

static enum si_step somebody_finished(const struct si_card *card, uint32_t me, int64_t now_ns, int64_t *next_ns)
{
    enum si_step step = SI_UP_TO_DATE;
    int64_t grace_ns = (int64_t)(SI_GRACE_NS * card->speed);
    for (int i = 0; i < (int)card->high; i++) {
        const struct si_entry *entry = &card->entries[i];
        if (entry->state != SI_FINISHED) continue;
        if (entry->slot == me) return SI_MINE_FINISHED;
        if (now_ns < entry->end_ns + grace_ns) {
            step = SI_HELD;
            *next_ns = entry->end_ns + grace_ns;
        }
    }
    return step;
}

/* Works the model forward to now, or to the first kernel that finished. `next_ns`: when there will be more to do. */
enum si_step si_share_advance(struct si_card *card, uint32_t me, int64_t now_ns, int64_t *next_ns)
{
    for (;;) {
        enum si_step step = somebody_finished(card, me, now_ns, next_ns);
        if (step != SI_UP_TO_DATE) return step;
        divide(card);
        int64_t next = next_change(card);
        *next_ns = next;
        move_to(card, next < now_ns ? next : now_ns);
        if (next > now_ns) return SI_UP_TO_DATE;
        settle(card, me);
    }
}

static void wake_the_others(struct si_card *card, uint32_t me)
{
    bool told[SI_PROCS] = {false};
    for (int i = 0; i < (int)card->high; i++) {
        uint32_t slot = card->entries[i].slot;
        if (card->entries[i].state != SI_LIVE || slot == me || told[slot]) continue;
        told[slot] = true;
        si_card_wake(card, (int)slot);
    }
}

/* Puts a kernel on the card from `arrive_ns` on. Returns its entry, or -1 where the card has no room for one more. */
int si_share_enter(struct si_card *card, uint32_t me, const struct si_entry *what)
{
    for (int i = 0; i < SI_ENTRIES; i++) {
        struct si_entry *entry = &card->entries[i];
        if (entry->state != SI_FREE) continue;
        *entry = *what;
        entry->slot = me;
        entry->order = ++card->order;
        entry->start_ns = -1;
        if (entry->arrive_ns < card->now_ns) entry->arrive_ns = card->now_ns;
        entry->rank += card->slots[me].low ? 1000 : 0;
        entry->state = SI_LIVE;
        if ((uint32_t)i >= card->high) card->high = (uint32_t)i + 1;
        return i;
    }
    return -1;
}

void si_share_leave(struct si_card *card, uint32_t me, int entry)
{
    card->entries[entry].state = SI_FREE;
    wake_the_others(card, me);
}
