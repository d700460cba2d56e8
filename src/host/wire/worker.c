/* SPDX-License-Identifier: Apache-2.0 */
#include "host/wire/worker.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/check.h"
#include "host/process/timed_wait.h"

struct worker {
    worker_function *function;
    void *context;
    pthread_t thread;
    pthread_mutex_t lock; /* protects the following fields */
    pthread_cond_t wake;
    struct record_queue given, answers;
    bool ending, called; /* called: requested from outside, without a record */
    int64_t again_ns;    /* delay until the next call without a record; 0: none */
    int file;            /* eventfd */
};

/* Waits for a record, the end, or the time of the next call. */
static void worker_wait(struct worker *worker) {
    struct timespec until = timed_wait_deadline(worker->again_ns);
    int late = 0;
    while (!worker->ending && !worker->called && !record_queue_first(&worker->given) && late == 0)
        late = worker->again_ns ? pthread_cond_timedwait(&worker->wake, &worker->lock, &until)
                                : pthread_cond_wait(&worker->wake, &worker->lock);
}

static void *worker_work(void *argument) {
    struct worker *worker = argument;
    pthread_mutex_lock(&worker->lock);
    for (;;) {
        worker_wait(worker);
        if (worker->ending) break;
        /* The first record stays in place while others are queued after it. */
        const struct record *record = record_queue_first(&worker->given);
        worker->again_ns = 0;
        worker->called = false;
        pthread_mutex_unlock(&worker->lock);
        worker->function(worker->context, worker, record);
        pthread_mutex_lock(&worker->lock);
        if (record) record_queue_drop(&worker->given);
    }
    pthread_mutex_unlock(&worker->lock);
    return NULL;
}

enum status worker_open(const char *name, worker_function *function, void *context,
                        struct worker **worker_out, struct error *error) {
    struct worker *worker = calloc(1, sizeof *worker);
    if (!worker) return error_set(error, STATUS_NO_MEMORY, "no memory for the %s thread", name);
    worker->function = function;
    worker->context = context;
    worker->given.bytes_max = worker->answers.bytes_max = SIZE_MAX;
    pthread_mutex_init(&worker->lock, NULL);
    timed_wait_open(&worker->wake);
    worker->file = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    int failure =
        worker->file < 0 ? errno : pthread_create(&worker->thread, NULL, worker_work, worker);
    if (failure) {
        if (worker->file >= 0) close(worker->file);
        free(worker);
        return error_set(error, STATUS_NO_MEMORY, "cannot start the %s thread: %s", name,
                         strerror(failure));
    }
    pthread_setname_np(worker->thread, name);
    *worker_out = worker;
    return STATUS_OK;
}

void worker_give(struct worker *worker, const struct record *record) {
    pthread_mutex_lock(&worker->lock);
    record_queue_force(&worker->given, record);
    pthread_cond_signal(&worker->wake);
    pthread_mutex_unlock(&worker->lock);
}

void worker_call(struct worker *worker) {
    pthread_mutex_lock(&worker->lock);
    worker->called = true;
    pthread_cond_signal(&worker->wake);
    pthread_mutex_unlock(&worker->lock);
}

void worker_call_again(struct worker *worker, int64_t in_ns) {
    worker->again_ns = in_ns; /* used only by its own thread */
}

size_t worker_waiting_bytes(struct worker *worker) {
    pthread_mutex_lock(&worker->lock);
    size_t bytes = worker->given.bytes;
    pthread_mutex_unlock(&worker->lock);
    return bytes;
}

int worker_file(const struct worker *worker) {
    return worker->file;
}

void worker_answer(struct worker *worker, const struct record *record) {
    uint64_t one = 1;
    pthread_mutex_lock(&worker->lock);
    record_queue_force(&worker->answers, record);
    pthread_mutex_unlock(&worker->lock);
    check(write(worker->file, &one, sizeof one) == sizeof one);
}

void worker_take(struct worker *worker, struct record_queue *to) {
    uint64_t count;
    if (read(worker->file, &count, sizeof count) < 0) check(errno == EAGAIN || errno == EINTR);
    pthread_mutex_lock(&worker->lock);
    record_queue_move(&worker->answers, to);
    pthread_mutex_unlock(&worker->lock);
}

/* pthread_timedjoin_np waits on the wall clock. */
static struct timespec wall_time_in(int64_t ns) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    ns += until.tv_nsec;
    until.tv_sec += ns / 1000000000;
    until.tv_nsec = ns % 1000000000;
    return until;
}

bool worker_close(struct worker *worker, int64_t wait_ns_max) {
    pthread_mutex_lock(&worker->lock);
    worker->ending = true;
    pthread_cond_signal(&worker->wake);
    pthread_mutex_unlock(&worker->lock);
    struct timespec until = wall_time_in(wait_ns_max);
    if (pthread_timedjoin_np(worker->thread, NULL, &until)) return false;
    record_queue_clear(&worker->given);
    record_queue_clear(&worker->answers);
    pthread_mutex_destroy(&worker->lock);
    pthread_cond_destroy(&worker->wake);
    close(worker->file);
    free(worker);
    return true;
}
