/* gb_log.h - one line per event on stderr, with time, level and program.
 *
 * Level from GABLE_LOG=error|warn|info|debug (default info for servers, warn for everything else; a
 * program sets its default with gb_log_init). Thread-safe; a line is one write(2). */
#ifndef GB_LOG_H
#define GB_LOG_H

typedef enum { GB_LOG_ERROR, GB_LOG_WARN, GB_LOG_INFO, GB_LOG_DEBUG } gb_log_level_t;

/* Sets the program's name and default level; GABLE_LOG overrides the level. `program` is kept. */
void gb_log_init(const char *program, gb_log_level_t level);

/* Name given to gb_log_init, else the process's short name. */
const char *gb_log_program(void);

int gb_log_enabled(gb_log_level_t level);

void gb_log(gb_log_level_t level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Prints `program: <text>` for the user on stderr, without time or level: the final message of a
 * program that gives up. The text reads "what went wrong: what to do". */
void gb_complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
