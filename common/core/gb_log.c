#include "common/core/gb_log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 1024 };

static const char *g_program;
static int g_level = -1; /* -1: not read yet; written once, the same value by every thread */

static const char *const level_names[] = {"error", "warn", "info", "debug"};

static int level_from_env(gb_log_level_t fallback)
{
    const char *s = getenv("GABLE_LOG");
    for (int i = 0; s && i < 4; i++)
        if (!strcmp(s, level_names[i]))
            return i;
    return (int)fallback;
}

void gb_log_init(const char *program, gb_log_level_t level)
{
    g_program = program;
    __atomic_store_n(&g_level, level_from_env(level), __ATOMIC_RELAXED);
}

const char *gb_log_program(void)
{
    return g_program ? g_program : program_invocation_short_name;
}

int gb_log_enabled(gb_log_level_t level)
{
    int now = __atomic_load_n(&g_level, __ATOMIC_RELAXED);
    if (now < 0) {
        now = level_from_env(GB_LOG_WARN);
        __atomic_store_n(&g_level, now, __ATOMIC_RELAXED);
    }
    return (int)level <= now;
}

static void write_line(char *line, size_t used)
{
    if (used > LINE_MAX_BYTES - 2)
        used = LINE_MAX_BYTES - 2;
    line[used++] = '\n';
    ssize_t n = write(STDERR_FILENO, line, used);
    (void)n; /* nowhere left to report to */
}

void gb_log(gb_log_level_t level, const char *format, ...)
{
    if (!gb_log_enabled(level))
        return;
    int saved = errno;
    char line[LINE_MAX_BYTES];
    struct timespec now;
    struct tm tm;
    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &tm);
    size_t used = strftime(line, sizeof line, "%H:%M:%S", &tm);
    used += (size_t)snprintf(line + used, sizeof line - used,
                             ".%03ld %s[%d] %s: ", now.tv_nsec / 1000000, gb_log_program(),
                             (int)getpid(), level_names[level]);
    va_list args;
    va_start(args, format);
    int more = vsnprintf(line + used, sizeof line - used, format, args);
    va_end(args);
    write_line(line, more > 0 ? used + (size_t)more : used);
    errno = saved;
}

void gb_complain(const char *format, ...)
{
    char line[LINE_MAX_BYTES];
    int used = snprintf(line, sizeof line, "%s: ", gb_log_program());
    va_list args;
    va_start(args, format);
    int more = vsnprintf(line + used, sizeof line - (size_t)used, format, args);
    va_end(args);
    write_line(line, (size_t)(used + (more > 0 ? more : 0)));
}
