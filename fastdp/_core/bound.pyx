"""Thin Cython over csrc/bound*.c. Arguments are checked in bound.py, userids.py and engines/users.py."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcpy

import numpy as np

from fastdp._core.status cimport check
from fastdp._core.team cimport Team, fdp_team, team_of


cdef extern from "bound.h" nogil:
    ctypedef struct fdp_ids:
        pass
    int fdp_rows_per_user(int64_t, const uint32_t *, uint32_t *)
    int fdp_group(int64_t, const uint32_t *, int64_t, const uint32_t *, const uint64_t *, int64_t *,
                  uint64_t *)
    int fdp_hash_column(int64_t, const void *, int, uint64_t *)
    int fdp_most_common(int64_t, const int64_t *, uint64_t *, const uint64_t *, uint64_t, int, int64_t *)
    int fdp_modes(int64_t, const int64_t *, uint64_t *, const uint64_t *, uint64_t, int, uint64_t *)
    int fdp_agreement(int64_t, const int64_t *, uint64_t *, const int32_t *, uint64_t, int, int64_t *)
    int fdp_order(int64_t, const int64_t *, uint64_t *, const uint64_t *, const uint64_t *, int, const uint32_t *,
                  int)
    int fdp_neighbours(int64_t, const int64_t *, const uint32_t *, const uint32_t *, const int32_t *, int64_t,
                       uint64_t, int, int64_t *)
    ctypedef struct fdp_cellset:
        int64_t count
        const int64_t *cells
        const int32_t *position
    int fdp_groups(
        int64_t, const int64_t *, uint64_t *, const uint64_t *, const fdp_cellset *, int64_t, int64_t, int,
        int64_t *
    )
    int fdp_ids_new(int, uint64_t, int, fdp_ids **)
    void fdp_ids_free(fdp_ids *)
    int64_t fdp_ids_count(const fdp_ids *)
    ctypedef struct fdp_ids_batch:
        int64_t n
        const uint64_t *key
        const uint64_t *hash
        const int64_t *offset
        const uint8_t *data
        const uint8_t *valid
        uint32_t *place
    int fdp_ids_find(fdp_ids *, uint64_t, const fdp_ids_batch *, uint32_t **, int64_t *)
    int fdp_ids_settle(fdp_ids *, uint64_t, const uint32_t *, int64_t, const uint32_t *)
    int fdp_ids_number(const fdp_ids *, int64_t, uint32_t *, fdp_team *)
    int fdp_ids_hashes(const fdp_ids *, int, uint64_t *, fdp_team *)
    int fdp_ids_value_hashes(int64_t, const uint64_t *, int, const int64_t *, const uint8_t *, uint64_t *)
    int fdp_ids_hash_words(int64_t, const uint64_t *, uint64_t *)
    int fdp_ids_hash_strings(int64_t, const int64_t *, const uint8_t *, const uint64_t *,
                             uint64_t *)


cdef str USERS = "more than 2^32-2 users, or rows of one user"


def rows_per_user(const uint32_t[::1] user, int64_t users):
    """uint32[users]: rows of each user; every number in `user` is below `users`."""
    out = np.zeros(users, np.uint32)
    cdef uint32_t[::1] view = out
    cdef int code
    if user.shape[0]:
        with nogil:
            code = fdp_rows_per_user(user.shape[0], &user[0], &view[0])
        check(code, "the users", USERS)
    return out


def group(const uint32_t[::1] user, const uint32_t[::1] count, const uint64_t[::1] value):
    """(start int64[users+1], sorted uint64[rows]): values (None: row numbers) with those of one user
    together."""
    start = np.zeros(count.shape[0] + 1, np.int64)
    out = np.empty(user.shape[0], np.uint64)
    cdef int64_t[::1] start_view = start
    cdef uint64_t[::1] out_view = out
    cdef int code
    if user.shape[0]:
        with nogil:
            code = fdp_group(
                user.shape[0], &user[0], count.shape[0], &count[0],
                &value[0] if value is not None else NULL, &start_view[0], &out_view[0],
            )
        check(code, "the users", USERS)
    return start, out


def hash_rows(columns, int64_t rows):
    """uint64[rows]: hash of each row's codes, in the order of the columns."""
    out = np.zeros(rows, np.uint64)
    cdef uint64_t[::1] view = out
    cdef const uint8_t[::1] column_view
    cdef int width, code
    for column in columns:
        if rows:
            width = column.itemsize
            column_view = column.view(np.uint8)
            with nogil:
                code = fdp_hash_column(rows, &column_view[0], width, &view[0])
            check(code, "the users", USERS)
    return out


def most_common(
    const int64_t[::1] start, uint64_t[::1] sorted, const uint64_t[::1] user_hash, uint64_t keys, int threads
):
    out = np.zeros(keys, np.int64)
    cdef int64_t[::1] view = out
    cdef int code
    if sorted.shape[0] and keys:
        with nogil:
            code = fdp_most_common(
                user_hash.shape[0], &start[0], &sorted[0], &user_hash[0], keys, threads, &view[0]
            )
        check(code, "the users", USERS)
    return out


def modes(
    const int64_t[::1] start, uint64_t[::1] sorted, const uint64_t[::1] user_hash, uint64_t keys, int threads
):
    """uint64[users]: the most common key of each user, 0 for a user without rows."""
    out = np.zeros(user_hash.shape[0], np.uint64)
    cdef uint64_t[::1] view = out
    cdef int code
    if sorted.shape[0]:
        with nogil:
            code = fdp_modes(
                user_hash.shape[0], &start[0], &sorted[0], &user_hash[0], keys, threads, &view[0]
            )
        check(code, "the users", USERS)
    return out


def agreement(
    const int64_t[::1] start,
    uint64_t[::1] sorted,
    const int32_t[::1] group_of,
    uint64_t keys,
    int64_t groups,
    int threads,
):
    """int64[groups]: sums of agreement in units of 2^-20."""
    out = np.zeros(groups, np.int64)
    cdef int64_t[::1] view = out
    cdef int code
    if sorted.shape[0]:
        with nogil:
            code = fdp_agreement(
                group_of.shape[0], &start[0], &sorted[0], &group_of[0], keys, threads, &view[0]
            )
        check(code, "the users", USERS)
    return out


def order(
    const int64_t[::1] start,
    uint64_t[::1] rows,
    const uint64_t[::1] user_hash,
    const uint64_t[::1] time,
    const uint32_t[:, ::1] content,
    int threads,
):
    """Sorts the row numbers of each user in place, by time, then by the tie number of the content's words, then
    by these words."""
    cdef int code, words = content.shape[1]
    if rows.shape[0]:
        with nogil:
            code = fdp_order(
                user_hash.shape[0], &start[0], &rows[0], &user_hash[0], &time[0], words, &content[0, 0], threads
            )
        check(code, "the users", USERS)


def neighbours(
    const int64_t[::1] start,
    const uint32_t[::1] this,
    const uint32_t[::1] that,
    const int32_t[::1] group_of,
    int64_t groups,
    uint64_t keys,
    int threads,
):
    """int64[groups + 1]: sums of how often `this` of a row is `that` of the next row, by group, and of any
    other row."""
    out = np.zeros(groups + 1, np.int64)
    cdef int64_t[::1] view = out
    cdef int code
    if this.shape[0]:
        with nogil:
            code = fdp_neighbours(
                group_of.shape[0], &start[0], &this[0], &that[0], &group_of[0], groups, keys, threads,
                &view[0],
            )
        check(code, "the users", USERS)
    return out


def groups(
    const int64_t[::1] start,
    uint64_t[::1] sorted,
    const uint64_t[::1] user_hash,
    const int64_t[::1] cells,
    const int32_t[::1] position,
    int64_t size,
    int64_t t_max,
    int64_t cap,
    int threads,
):
    out = np.zeros(size, np.int64)
    cdef int64_t[::1] view = out
    cdef fdp_cellset set
    cdef int code
    if sorted.shape[0] and size:
        set.count = size
        set.cells = &cells[0] if cells is not None else NULL
        set.position = &position[0] if position is not None else NULL
        with nogil:
            code = fdp_groups(
                user_hash.shape[0], &start[0], &sorted[0], &user_hash[0], &set, t_max, cap, threads, &view[0]
            )
        check(code, "the users", USERS)
    return out


def hash_words(const uint64_t[::1] ids):
    """Quick hashes of 64-bit words, which different words do not share."""
    out = np.empty(ids.shape[0], np.uint64)
    cdef uint64_t[::1] view = out
    cdef int code
    if ids.shape[0]:
        with nogil:
            code = fdp_ids_hash_words(ids.shape[0], &ids[0], &view[0])
        check(code, "the users", USERS)
    return out


def hash_strings(const int64_t[::1] offset, const uint8_t[::1] data, const uint64_t[::1] secret):
    """uint64[2n]: keyed 128-bit hashes of the strings data[offset[i]:offset[i+1]]."""
    cdef int64_t n = offset.shape[0] - 1
    key = np.empty(2 * n, np.uint64)
    cdef uint64_t[::1] key_view = key
    cdef uint8_t nothing = 0
    cdef int code
    if n > 0:
        with nogil:
            code = fdp_ids_hash_strings(
                n, &offset[0], &data[0] if data.shape[0] else &nothing, &secret[0], &key_view[0]
            )
        check(code, "the users", USERS)
    return key


def word_hashes(const uint64_t[::1] words, bint is_signed):
    """uint64[n]: public hashes of 64-bit ids, by their digits."""
    cdef int64_t n = words.shape[0]
    out = np.empty(n, np.uint64)
    cdef uint64_t[::1] view = out
    if n:
        with nogil:
            fdp_ids_value_hashes(n, &words[0], is_signed, NULL, NULL, &view[0])
    return out


def string_hashes(const int64_t[::1] offset, const uint8_t[::1] data):
    """uint64[n]: public hashes of the strings data[offset[i]:offset[i+1]]."""
    cdef int64_t n = offset.shape[0] - 1
    out = np.empty(max(n, 0), np.uint64)
    cdef uint64_t[::1] view = out
    cdef uint8_t nothing = 0
    if n > 0:
        with nogil:
            fdp_ids_value_hashes(
                n, NULL, 0, &offset[0], &data[0] if data.shape[0] else &nothing, &view[0]
            )
    return out


cdef class Ids:
    """A growing map from ids to dense numbers; see csrc/bound_ids.c. Any thread may call `find`; one calls
    the other methods. threads: whether one or several look ids up."""

    cdef fdp_ids *c
    cdef readonly int words

    def __cinit__(self, int words, uint64_t secret, int threads=1):
        self.words = words
        check(fdp_ids_new(words, secret, threads, &self.c), "the users", USERS)

    def __dealloc__(self):
        fdp_ids_free(self.c)

    def __len__(self):
        return fdp_ids_count(self.c)

    def find(self, const uint64_t[::1] key, strings, const uint64_t[::1] hash, const uint8_t[::1] valid,
             uint64_t position):
        """(place of each id's entry, rows that may be the first ones of their ids), uint32; the rows begin at
        this position. Of strings: their (offset, data), or the public hash of each. Rows that are not valid
        become users of their own."""
        cdef const int64_t[::1] offset
        cdef const uint8_t[::1] data
        cdef uint8_t nothing = 0
        cdef int64_t n = key.shape[0] // self.words, found = 0
        cdef fdp_ids_batch batch
        cdef uint32_t *rows = NULL
        cdef int code
        place = np.empty(n, np.uint32)
        cdef uint32_t[::1] view = place
        if n:
            batch.n, batch.key, batch.place = n, &key[0], &view[0]
            batch.hash, batch.offset, batch.data = NULL, NULL, NULL
            known = n if valid is None else int(np.count_nonzero(valid))  # the others may come last
            if strings is not None:
                offset, data = strings
                if offset.shape[0] - 1 < known:
                    raise ValueError("as many strings as ids are needed")
                batch.offset, batch.data = &offset[0], &data[0] if data.shape[0] else &nothing
            elif self.words == 2:
                if hash is None or hash.shape[0] < n:
                    raise ValueError("as many hashes as ids are needed")
                batch.hash = &hash[0]
            if valid is not None and valid.shape[0] < n:
                raise ValueError("as many flags as ids are needed")
            batch.valid = &valid[0] if valid is not None else NULL
            with nogil:
                code = fdp_ids_find(self.c, position, &batch, &rows, &found)
            check(code, "the users", USERS)
        fresh = np.empty(found, np.uint32)
        if found:
            view = fresh
            memcpy(&view[0], rows, found * sizeof(uint32_t))
        free(rows)
        return place, fresh

    def settle(self, const uint32_t[::1] place, const uint32_t[::1] fresh, uint64_t position):
        """Numbers the ids whose first rows are in this batch; batch after batch, in the order of positions."""
        cdef int code = 0
        if fresh.shape[0] > 1000:
            with nogil:
                code = fdp_ids_settle(self.c, position, &place[0], fresh.shape[0], &fresh[0])
        elif fresh.shape[0]:  # microseconds: to wait for Python's lock takes longer
            code = fdp_ids_settle(self.c, position, &place[0], fresh.shape[0], &fresh[0])
        check(code, "the users", USERS)

    def number(self, uint32_t[::1] place, threads=1):
        """Replaces places, of batches that are settled, by numbers."""
        cdef Team team = team_of(threads)
        if place.shape[0]:
            with nogil:
                fdp_ids_number(self.c, place.shape[0], &place[0], team.c)

    def hashes(self, threads=1, bint is_signed=True):
        """uint64[len(self)]: the public hash of every user's id value (0 for users without an id). is_signed:
        whether ids of one word are."""
        cdef int64_t n = fdp_ids_count(self.c)
        cdef Team team = team_of(threads)
        out = np.empty(n, np.uint64)
        cdef uint64_t[::1] view = out
        if n:
            with nogil:
                fdp_ids_hashes(self.c, is_signed, &view[0], team.c)
        return out
