/* Work space in large pages, where the system has them: the first touch of 60 MB in small pages costs more
 * than 16 threads take to count, and random access to a few megabytes misses their addresses. */
#ifndef FDP_ROOM_H
#define FDP_ROOM_H

#include <stdlib.h>
#include <sys/mman.h>

#define FDP_ROOM_PAGE (1 << 21)
#define FDP_ROOM_WHOLE(bytes) (((bytes) + FDP_ROOM_PAGE - 1) / FDP_ROOM_PAGE * FDP_ROOM_PAGE)

/* So many bytes of zeros; what nobody touches costs nothing. NULL: no memory, or none asked for. Linux lets
 * whole large pages begin where one of them does; else up to 511 small ones come before the first. */
static inline char *fdp_room(size_t bytes) {
    if (bytes < FDP_ROOM_PAGE) return bytes ? calloc(1, bytes) : NULL;
    bytes = FDP_ROOM_WHOLE(bytes);
    int flags = MAP_PRIVATE | MAP_ANONYMOUS;
#ifdef MAP_NORESERVE
    flags |= MAP_NORESERVE;
#endif
    void *found = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (found == MAP_FAILED) return NULL;
#ifdef MADV_HUGEPAGE
    madvise(found, bytes, MADV_HUGEPAGE);
#endif
    return found;
}

static inline void fdp_room_end(char *room, size_t bytes) {
    if (bytes < FDP_ROOM_PAGE)
        free(room);
    else if (room)
        munmap(room, FDP_ROOM_WHOLE(bytes));
}

#endif
