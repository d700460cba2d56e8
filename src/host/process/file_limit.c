/* SPDX-License-Identifier: Apache-2.0 */
#include "host/process/file_limit.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "host/process/log/log.h"

#define OVER_NS ((int64_t)60000000000) /* a shortage ends after so long without a failure */

uint64_t file_limit_raise(uint64_t wanted) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit)) return UINT64_MAX;
    if (wanted > limit.rlim_max) wanted = limit.rlim_max;
    if (limit.rlim_cur < wanted) {
        const rlim_t before = limit.rlim_cur;
        limit.rlim_cur = wanted;
        if (setrlimit(RLIMIT_NOFILE, &limit)) limit.rlim_cur = before;
    }
    return limit.rlim_cur;
}

bool file_limit_shortage_report(struct file_shortage *shortage, const char *where, int failure) {
    int64_t now_ns = clock_now_ns();
    bool lasts = shortage->failed_ns && now_ns - shortage->failed_ns < OVER_NS;
    shortage->failed_ns = now_ns;
    if (lasts) return false;
    if (failure == EMFILE)
        log_say(
            LOG_WARNING, "http",
            "no connection can be taken, raise `ulimit -n` address=%s why=%s files_max=%" PRIu64,
            where, strerror(failure), file_limit_raise(0));
    else
        log_say(LOG_WARNING, "http", "no connection can be taken address=%s why=%s", where,
                strerror(failure));
    return true;
}
