/* <pthread.h>, whose functions are taken in their oldest version.
 *
 * glibc 2.34 moved these functions into libc.so under a new version and kept the old one. A program that is
 * built there would need 2.34, though the functions are the same: on a system of 2.28 it would not start.
 * Every Python loads libpthread, so that the old version is found there too. The sanitisers stand between the
 * program and these functions, and know the new version only. */
#ifndef FDP_THREADS_H
#define FDP_THREADS_H

#include <pthread.h>

#if defined(__GLIBC__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#if defined(__x86_64__)
#define FDP_OLD(name) __asm__(".symver " #name "," #name "@GLIBC_2.2.5")
#elif defined(__aarch64__)
#define FDP_OLD(name) __asm__(".symver " #name "," #name "@GLIBC_2.17")
#endif
#endif

#if defined(FDP_OLD)
FDP_OLD(pthread_attr_setstacksize);
FDP_OLD(pthread_create);
FDP_OLD(pthread_join);
FDP_OLD(pthread_mutex_trylock);
FDP_OLD(pthread_sigmask);
#endif

#endif
