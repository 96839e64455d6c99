/* For LD_PRELOAD: programs read a clock that is $RIG_SKEW seconds ahead. No namespace has a time of day of its own.

   Only the time of day is moved, as a wrongly set clock would be: how long something takes stays true, and a wait until a
   given time of day ends when the moved clock shows it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static double skew(void)
{
    static double seconds;
    static int known;
    if (!known) {
        const char *given = getenv("RIG_SKEW");
        seconds = given ? atof(given) : 0;
        known = 1;
    }
    return seconds;
}

static struct timespec moved(struct timespec time, double seconds)
{
    long long nanoseconds = time.tv_sec * 1000000000LL + time.tv_nsec + (long long)(seconds * 1e9);
    return (struct timespec){nanoseconds / 1000000000, nanoseconds % 1000000000};
}

static int is_time_of_day(clockid_t clock)
{
    return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
}

int clock_gettime(clockid_t clock, struct timespec *time)
{
    static int (*real)(clockid_t, struct timespec *);
    int failed;
    if (!real)
        real = dlsym(RTLD_NEXT, "clock_gettime");
    failed = real(clock, time);
    if (!failed && is_time_of_day(clock))
        *time = moved(*time, skew());
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec time;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &time);
    *now = (struct timeval){time.tv_sec, time.tv_nsec / 1000};
    return 0;
}

time_t time(time_t *now)
{
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    if (now)
        *now = time.tv_sec;
    return time.tv_sec;
}

int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict until)
{
    static int (*real)(sem_t *, const struct timespec *);
    struct timespec time = moved(*until, -skew());
    if (!real)
        real = dlsym(RTLD_NEXT, "sem_timedwait");
    return real(semaphore, &time);
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *until, struct timespec *left)
{
    static int (*real)(clockid_t, int, const struct timespec *, struct timespec *);
    struct timespec time = (flags & TIMER_ABSTIME) && is_time_of_day(clock) ? moved(*until, -skew()) : *until;
    if (!real)
        real = dlsym(RTLD_NEXT, "clock_nanosleep");
    return real(clock, flags, &time, left);
}
