/* SPDX-License-Identifier: Apache-2.0
 * Protects the rendezvous of ranks. Addresses in a MEMBERS frame are read as they were written.
 * Malformed frames, cut anywhere, are rejected and never read beyond their end. After a rank dies
 * or comes back, the next MEMBERS frame has the new addresses of the living ranks.
 */
#include "test_case.h"

#include "base/check.h"
#include "base/random.h"
#include "compute/exchange/job_rendezvous.h"

#define RANKS 5

static char addresses[RANKS][300];

static struct bytes address_of(uint32_t rank) {
    return (struct bytes){addresses[rank], 1 + 61 * rank};
}

/* Rank's HERE, in memory of exactly its size: a byte too far is one that a sanitizer sees. */
static struct bytes here_in(uint32_t rank, uint32_t epoch) {
    static char frame[JOB_JOIN_BYTES_MAX];
    for (size_t i = 0; i < sizeof addresses[rank]; i++)
        addresses[rank][i] = (char)(rank * 31 + i);
    size_t bytes = job_rendezvous_frame_join(frame, rank, epoch, rank < 3 ? "north" : "south",
                                             address_of(rank));
    char *exact = malloc(bytes);
    check(exact);
    memcpy(exact, frame, bytes);
    return (struct bytes){exact, bytes};
}

static struct bytes here_of(uint32_t rank) {
    return here_in(rank, 0);
}

static void let_go(struct bytes frame) {
    free((void *)(uintptr_t)frame.data);
}

static struct job_members *members_of(uint32_t come) {
    struct job_members *members;
    struct error error;
    assert_int_equal(job_rendezvous_members_open(RANKS, &members, &error), STATUS_OK);
    for (uint32_t i = 0; i < come; i++) {
        struct bytes here = here_of((i * 3 + 1) % RANKS); /* in some order */
        assert_true(job_rendezvous_members_add(members, here));
        let_go(here);
    }
    return members;
}

TEST(a_members_has_every_place_in_order) {
    struct job_members *members = members_of(RANKS);
    struct bytes frame = job_rendezvous_members_next(members), address;
    const char *host;
    size_t bytes, at = 0;
    assert_true(job_rendezvous_frame_measure(frame, RANKS, &bytes));
    assert_int_equal(bytes, frame.count);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        assert_true(job_rendezvous_frame_address(frame, &at, &host, &address));
        assert_string_equal(host, rank < 3 ? "north" : "south");
        assert_true(bytes_equal(address, address_of(rank)));
    }
    assert_false(job_rendezvous_frame_address(frame, &at, &host, &address));
    job_rendezvous_members_close(members);
}

TEST(there_is_no_members_before_all_have_come) {
    for (uint32_t come = 0; come < RANKS; come++) {
        struct job_members *members = members_of(come);
        assert_int_equal(job_rendezvous_members_next(members).count, 0);
        job_rendezvous_members_close(members);
    }
}

TEST(a_rank_comes_once_and_is_of_the_job) {
    struct job_members *members = members_of(RANKS - 1);
    struct bytes again = here_of(1);
    assert_false(job_rendezvous_members_add(members, again));
    ((struct job_frame *)(void *)(uintptr_t)again.data)->rank = RANKS;
    assert_false(job_rendezvous_members_add(members, again));
    let_go(again);
    assert_int_equal(job_rendezvous_members_next(members).count, 0);
    job_rendezvous_members_close(members);
}

TEST(a_cut_frame_is_measured_and_not_taken) {
    struct bytes here = here_of(2);
    for (size_t count = 0; count < here.count; count++) {
        char *cut = malloc(count + 1); /* the last byte is not the frame's */
        size_t bytes;
        check(cut);
        memcpy(cut, here.data, count);
        struct job_members *members = members_of(0);
        assert_true(job_rendezvous_frame_measure((struct bytes){cut, count}, RANKS, &bytes));
        assert_int_equal(bytes, count < sizeof(struct job_frame) ? 0 : here.count);
        assert_false(job_rendezvous_members_add(members, (struct bytes){cut, count}));
        job_rendezvous_members_close(members);
        free(cut);
    }
    let_go(here);
}

/* Whatever is accepted can be walked, within its bytes. */
TEST(damaged_frames_are_refused_or_harmless) {
    uint32_t refused = 0;
    for (uint32_t seed = 0; seed < 20000; seed++) {
        struct bytes here = here_of(seed % RANKS);
        struct job_members *members = members_of(0);
        char *data = (char *)(uintptr_t)here.data;
        size_t head = sizeof(struct job_frame) + sizeof(struct job_address);
        size_t at = (size_t)(random_uniform(7, seed, 0) * (double)head);
        data[at] = (char)(random_uniform(7, seed, 1) * 256);
        refused += !job_rendezvous_members_add(members, here);
        job_rendezvous_members_close(members);
        let_go(here);
    }
    assert_true(refused > 3000 && refused < 20000);
}

TEST(frames_report_who_is_gone) {
    const struct job_frame gone = job_rendezvous_frame_head(JOB_FRAME_GONE, 3, 1, 0);
    const struct bytes frame = {(const char *)&gone, sizeof gone};
    size_t bytes;
    assert_true(job_rendezvous_frame_measure(frame, RANKS, &bytes));
    assert_int_equal(bytes, sizeof gone);
    assert_false(job_rendezvous_frame_measure(frame, 3, &bytes));
}

static bool comes(struct job_members *members, uint32_t rank, uint32_t epoch) {
    struct bytes here = here_in(rank, epoch);
    bool taken = job_rendezvous_members_add(members, here);
    let_go(here);
    return taken;
}

/* The next frame's head; kind 0: there is none. */
static struct job_frame reported(struct job_members *members) {
    struct bytes frame = job_rendezvous_members_next(members);
    struct job_frame head = {.kind = 0};
    if (frame.count) memcpy(&head, frame.data, sizeof head);
    return head;
}

static void assert_reported(struct job_members *members, uint32_t kind, uint32_t rank,
                            uint32_t epoch) {
    const struct job_frame head = reported(members);
    assert_int_equal(head.kind, kind);
    if (kind != JOB_FRAME_MEMBERS) assert_int_equal(head.rank, rank);
    assert_int_equal(head.epoch, epoch);
}

TEST(those_who_live_meet_again_without_the_dead) {
    struct job_members *members = members_of(RANKS);
    struct bytes address;
    const char *host;
    size_t at = 0;
    assert_reported(members, JOB_FRAME_MEMBERS, 0, 0);
    job_rendezvous_members_leave(members, 3);
    job_rendezvous_members_leave(members, 3); /* it is told once */
    assert_reported(members, JOB_FRAME_GONE, 3, 1);
    assert_int_equal(reported(members).kind, 0);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        assert_int_equal(reported(members).kind, 0);
        if (rank != 3) assert_true(comes(members, rank, 1));
    }
    struct bytes frame = job_rendezvous_members_next(members);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        assert_true(job_rendezvous_frame_address(frame, &at, &host, &address));
        assert_int_equal(address.count == 0, rank == 3);
    }
    assert_false(job_rendezvous_frame_address(frame, &at, &host, &address));
    assert_false(job_rendezvous_members_is_alive(members, 3));
    assert_true(comes(members, 3, 0));
    assert_reported(members, JOB_FRAME_BACK, 3, 2);
    assert_true(job_rendezvous_members_is_alive(members, 3));
    for (uint32_t rank = 0; rank < RANKS; rank++)
        assert_true(comes(members, rank, 2));
    assert_reported(members, JOB_FRAME_MEMBERS, 0, 2);
    assert_int_equal(job_rendezvous_members_epoch(members), 2);
    job_rendezvous_members_close(members);
}
