/* SPDX-License-Identifier: Apache-2.0
 * Protects messages of a job, run by all ranks: messages of any size arrive complete and in order,
 * channels and tags are separate, and no rank leaves a barrier early.
 */
#define TEST_OWN_MAIN
#include "test_case.h"

#include "base/check.h"
#include "base/random.h"
#include "compute/exchange/job.h"
#include "on_ranks.h"

#define LARGE ((size_t)1 << 20)
#define ROUNDS 20
#define LANES 3

static void fill(unsigned char *data, size_t bytes, uint32_t seed) {
    for (size_t i = 0; i < bytes; i++)
        data[i] = (unsigned char)(i * 31 + seed * 7 + i / 251);
}

static void assert_filled(const unsigned char *data, size_t bytes, uint32_t seed) {
    for (size_t i = 0; i < bytes; i++)
        if (data[i] != (unsigned char)(i * 31 + seed * 7 + i / 251))
            fail_msg("byte %zu of %zu is wrong", i, bytes);
}

static unsigned char *memory_of(size_t bytes) {
    unsigned char *memory = malloc(bytes);
    check(memory);
    return memory;
}

TEST(messages_between_ranks_come_whole) {
    unsigned char *bytes = memory_of(LARGE);
    size_t size;
    for (uint32_t rank = 1; rank < job_count() && job_rank() == 0; rank++) {
        fill(bytes, LARGE, rank);
        job_send(rank, bytes, LARGE - rank);
        job_send(rank, bytes, 0);
    }
    if (job_rank()) {
        assert_int_equal(job_receive(0, bytes, LARGE), LARGE - job_rank());
        assert_filled(bytes, LARGE - job_rank(), job_rank());
        assert_int_equal(job_receive(0, bytes, LARGE), 0);
        bytes[2] = (unsigned char)job_rank();
        job_send(0, bytes, 3);
    }
    for (uint32_t rank = 1; rank < job_count() && job_rank() == 0; rank++) {
        while (!job_probe(rank, &size))
            ;
        assert_int_equal(size, 3);
        assert_int_equal(job_receive(rank, bytes, LARGE), 3);
        assert_int_equal(bytes[2], rank);
    }
    free(bytes);
}

static size_t size_of(uint32_t from, uint32_t to, uint32_t round, uint32_t channel) {
    double drawn = random_uniform(9, from * 64 + to, round * LANES + channel);
    return drawn < 0.1 ? 0 : (size_t)(drawn * drawn * drawn * (double)LARGE);
}

static uint32_t seed_of(uint32_t from, uint32_t to, uint32_t round, uint32_t channel) {
    return ((from * 64 + to) * ROUNDS + round) * LANES + channel;
}

/* Everybody to everybody, three ways at once: on two lanes, and on two tags of one. */
TEST(lanes_and_tags_are_kept_apart) {
    static const enum job_channel channels[LANES] = {JOB_CHANNEL_ACTIVATIONS,
                                                     JOB_CHANNEL_ACTIVATIONS, JOB_CHANNEL_MOVES};
    uint32_t count = job_count(), rank = job_rank();
    unsigned char *out = memory_of(count * LANES * LARGE), *in = memory_of(count * LANES * LARGE);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        struct job_batch sent = {0}, received = {0};
        for (uint32_t i = 0; i < count * LANES; i++) {
            uint32_t channel = LANES - 1 - i % LANES, peer = i / LANES; /* not as they are sent */
            if (peer != rank)
                job_receive_begin(&received, channels[channel], channel % 2, peer,
                                  in + (peer * LANES + channel) * LARGE, LARGE);
        }
        for (uint32_t i = 0; i < count * LANES; i++) {
            uint32_t channel = i % LANES, peer = i / LANES;
            if (peer == rank) continue;
            size_t bytes = size_of(rank, peer, round, channel);
            fill(out + i * LARGE, bytes, seed_of(rank, peer, round, channel));
            job_send_begin(&sent, channels[channel], channel % 2, peer, out + i * LARGE, bytes);
        }
        job_wait(&received);
        for (uint32_t i = 0; i < count * LANES; i++)
            if (i / LANES != rank)
                assert_filled(in + i * LARGE, size_of(i / LANES, rank, round, i % LANES),
                              seed_of(i / LANES, rank, round, i % LANES));
        job_wait(&sent);
        assert_true(job_done(&sent) && job_done(&received));
    }
    free(out);
    free(in);
}

/* A message that comes before its receive was begun waits for it, in the order of sending. */
TEST(early_messages_wait_in_their_order) {
    uint32_t to = (job_rank() + 1) % job_count();
    uint32_t from = (job_rank() + job_count() - 1) % job_count();
    uint32_t out[ROUNDS], in[ROUNDS];
    struct job_batch sent = {0}, received = {0};
    for (uint32_t i = 0; i < ROUNDS; i++) {
        out[i] = job_rank() * 1000 + i;
        job_send_begin(&sent, JOB_CHANNEL_MOVES, 7, to, &out[i], sizeof out[i]);
    }
    job_barrier();
    for (uint32_t i = 0; i < ROUNDS; i++)
        job_receive_begin(&received, JOB_CHANNEL_MOVES, 7, from, &in[i], sizeof in[i]);
    job_wait(&received);
    job_wait(&sent);
    for (uint32_t i = 0; i < ROUNDS; i++)
        assert_int_equal(in[i], from * 1000 + i);
}

/* Rank 0 tells everybody a number after each barrier; nobody has it before. */
TEST(a_barrier_holds_everybody) {
    uint32_t number;
    size_t size;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        if (job_rank()) assert_false(job_probe(0, &size));
        job_barrier();
        for (uint32_t rank = 1; rank < job_count() && job_rank() == 0; rank++)
            job_send(rank, &round, sizeof round);
        if (job_rank()) {
            assert_int_equal(job_receive(0, &number, sizeof number), sizeof number);
            assert_int_equal(number, round);
        }
        job_barrier();
    }
}

TEST(a_swap_brings_each_part_to_its_rank) {
    size_t bytes = 70001;
    unsigned char *out = memory_of(job_count() * bytes), *in = memory_of(job_count() * bytes);
    for (uint32_t rank = 0; rank < job_count(); rank++)
        fill(out + rank * bytes, bytes, job_rank() * 64 + rank);
    job_all_to_all((const char *)out, (char *)in, bytes);
    for (uint32_t rank = 0; rank < job_count(); rank++)
        if (rank != job_rank()) assert_filled(in + rank * bytes, bytes, rank * 64 + job_rank());
    free(out);
    free(in);
}

int main(int argc, char **argv) {
    return on_ranks(argv, "job", test_cases, test_case_count);
}
