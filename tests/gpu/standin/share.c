/* Sharing of the SMs between running kernels, as a fluid model. Between two changes every kernel progresses at the rate
 * of its SMs. Any process that holds the lock of the card may advance the model to the current time.
 *
 * A finished kernel stops the model until its process has noticed it (or for SI_GRACE_NS), so that the next kernel of
 * the stream starts exactly when the last one ended, even if the operating system wakes the process late. */
#include "card.h"

#include <math.h>
#include <string.h>

#define SI_GRACE_NS 2000000 /* real time */

static bool is_active(const struct si_card *card, const struct si_entry *entry)
{
    return entry->state == SI_LIVE && entry->arrive_ns <= card->now_ns;
}

static bool has_active(const struct si_card *card, uint32_t slot)
{
    for (int i = 0; i < (int)card->entry_count; i++) {
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

/* Round-robin time slices. A process without work gives up the rest of its slice. */
static void next_slice(struct si_card *card)
{
    if (has_active(card, card->slice_slot) && card->now_ns < card->slice_end_ns) return;
    card->slice_slot = next_with_work(card, card->slice_slot);
    card->slice_end_ns = card->now_ns + (int64_t)card->slice_ns;
}

/* Order of two kernels that may use an SM: by priority, then by number of held SMs, then by arrival. */
static bool precedes(const struct si_entry *a, const struct si_entry *b)
{
    if (a->priority != b->priority) return a->priority < b->priority;
    if (a->sms_now != b->sms_now) return a->sms_now < b->sms_now;
    return a->order < b->order;
}

static void assign(struct si_entry *entry, uint32_t sm)
{
    entry->sms_now++;
    si_mask_add(&entry->held, sm);
}

static void assign_to_best(struct si_entry **running, int count, uint32_t sm)
{
    struct si_entry *best = NULL;
    for (int i = 0; i < count; i++) {
        if (!si_mask_has(&running[i]->allowed, sm) || running[i]->sms_now >= running[i]->max_sms) continue;
        if (!best || precedes(running[i], best)) best = running[i];
    }
    if (best) assign(best, sm);
}

static int collect_running(struct si_card *card, struct si_entry **running)
{
    int count = 0;
    if (card->mode == SI_TIMESLICE) next_slice(card);
    for (int i = 0; i < (int)card->entry_count; i++) {
        struct si_entry *entry = &card->entries[i];
        entry->sms_now = 0;
        memset(&entry->held, 0, sizeof entry->held);
        if (is_active(card, entry) && (card->mode == SI_MPS || entry->slot == card->slice_slot)) {
            running[count++] = entry;
        }
    }
    return count;
}

static bool is_spinning(const struct si_entry *entry) { return entry->ranks && !entry->all_ranks_run; }

/* A spinning kernel holds its SMs without progress. */
static double rate_of(const struct si_entry *entry)
{
    return is_spinning(entry) ? 0.0 : (double)entry->sms_now / entry->full_sms;
}

/* Once all ranks of a collective have started, they continue, even if they are time-sliced. */
static void check_ranks(struct si_card *card, const struct si_entry *rank)
{
    uint32_t started = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < (int)card->entry_count; i++) {
            struct si_entry *entry = &card->entries[i];
            bool waits = entry->state == SI_LIVE && is_spinning(entry) && entry->start_ns >= 0;
            if (!waits || entry->collective_id != rank->collective_id) continue;
            if (pass == 0) started++;
            else if (started >= rank->ranks) entry->all_ranks_run = 1;
        }
    }
}

/* SMs with the fewest candidates are assigned first, so that a kernel with many allowed SMs leaves room for a
 * restricted one. */
static void divide(struct si_card *card)
{
    struct si_entry *running[SI_ENTRIES];
    int count = collect_running(card, running), candidates[SI_WORDS * 64] = {0}, max_candidates = 0;
    for (uint32_t sm = 0; sm < card->sms; sm++) {
        for (int i = 0; i < count; i++) candidates[sm] += si_mask_has(&running[i]->allowed, sm);
        if (candidates[sm] > max_candidates) max_candidates = candidates[sm];
    }
    for (int number = 1; number <= max_candidates; number++) {
        for (uint32_t sm = 0; sm < card->sms; sm++) {
            if (candidates[sm] == number) assign_to_best(running, count, sm);
        }
    }
    for (int i = 0; i < count; i++) {
        si_mask_join(&running[i]->used, &running[i]->held);
        if (running[i]->sms_now && running[i]->start_ns < 0) running[i]->start_ns = card->now_ns;
    }
    for (int i = 0; i < count; i++) {
        if (is_spinning(running[i])) check_ranks(card, running[i]);
    }
}

static int64_t end_of(const struct si_card *card, const struct si_entry *entry)
{
    return card->now_ns + (int64_t)ceil(entry->remaining_ns / rate_of(entry));
}

static int64_t next_change(const struct si_card *card)
{
    int64_t next = SI_NEVER;
    bool others = false;
    for (int i = 0; i < (int)card->entry_count; i++) {
        const struct si_entry *entry = &card->entries[i];
        if (entry->state != SI_LIVE) continue;
        int64_t at = SI_NEVER;
        if (entry->arrive_ns > card->now_ns) at = entry->arrive_ns;
        else if (entry->sms_now && !is_spinning(entry)) at = end_of(card, entry);
        if (at < next) next = at;
        others |= entry->slot != card->slice_slot && is_active(card, entry);
    }
    if (card->mode == SI_TIMESLICE && others && card->slice_end_ns < next) next = card->slice_end_ns;
    return next;
}

static void move_to(struct si_card *card, int64_t to_ns)
{
    double passed = (double)(to_ns - card->now_ns);
    if (passed <= 0) return;
    for (int i = 0; i < (int)card->entry_count; i++) {
        struct si_entry *entry = &card->entries[i];
        if (entry->state != SI_LIVE || !entry->sms_now) continue;
        entry->remaining_ns -= passed * rate_of(entry);
        entry->sm_ns += passed * entry->sms_now;
    }
    card->now_ns = to_ns;
}

static void settle(struct si_card *card, uint32_t me)
{
    for (int i = 0; i < (int)card->entry_count; i++) {
        struct si_entry *entry = &card->entries[i];
        if (entry->state != SI_LIVE || !entry->sms_now || is_spinning(entry) || entry->remaining_ns > 0.5) continue;
        entry->state = SI_FINISHED;
        entry->end_ns = card->now_ns;
        if (entry->slot != me) si_card_wake(card, (int)entry->slot);
    }
}

static enum si_step find_finished(const struct si_card *card, uint32_t me, int64_t now_ns, int64_t *next_ns)
{
    enum si_step step = SI_UP_TO_DATE;
    int64_t grace_ns = (int64_t)(SI_GRACE_NS * card->speed);
    for (int i = 0; i < (int)card->entry_count; i++) {
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

/* Advances the model to now, or to the first finished kernel. `next_ns`: time of the next change. */
enum si_step si_share_advance(struct si_card *card, uint32_t me, int64_t now_ns, int64_t *next_ns)
{
    for (;;) {
        enum si_step step = find_finished(card, me, now_ns, next_ns);
        if (step != SI_UP_TO_DATE) return step;
        divide(card);
        int64_t next = next_change(card);
        *next_ns = next;
        move_to(card, next < now_ns ? next : now_ns);
        if (next > now_ns) return SI_UP_TO_DATE;
        settle(card, me);
    }
}

static void wake_others(struct si_card *card, uint32_t me)
{
    bool woken[SI_PROCS] = {false};
    for (int i = 0; i < (int)card->entry_count; i++) {
        uint32_t slot = card->entries[i].slot;
        if (card->entries[i].state != SI_LIVE || slot == me || woken[slot]) continue;
        woken[slot] = true;
        si_card_wake(card, (int)slot);
    }
}

/* Adds a kernel that arrives at `arrive_ns`. Returns its entry, or -1 if all entries are in use. */
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
        entry->priority += card->slots[me].low_priority ? 1000 : 0;
        entry->state = SI_LIVE;
        if ((uint32_t)i >= card->entry_count) card->entry_count = (uint32_t)i + 1;
        return i;
    }
    return -1;
}

void si_share_leave(struct si_card *card, uint32_t me, int entry)
{
    card->entries[entry].state = SI_FREE;
    wake_others(card, me);
}
