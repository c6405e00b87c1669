// Memory for row loops, asked for once before they begin.
#pragma once

#include <memory>
#include <new>

#include "numbers.hpp"

namespace ifonly::IFONLY_SET {

struct Memory {
    void *at;
    explicit Memory(i64 bytes) : at(::operator new(bytes + 64)) {}
    ~Memory() { ::operator delete(at); }
    Memory(const Memory &) = delete;
    Memory &operator=(const Memory &) = delete;
    template <class T> T *as() const { return reinterpret_cast<T *>((reinterpret_cast<unsigned long long>(at) + 63) & ~63ULL); }
};

/** Memory handed out piece by piece; without any, it counts how much there has to be. */
struct Pieces {
    char *at;
    i64 used = 0;
    template <class T> T *take(i64 count) {
        T *piece = at ? reinterpret_cast<T *>(at + used) : nullptr;
        used += (count * i64(sizeof(T)) + 63) / 64 * 64;
        return piece;
    }
    template <class T> void lend(T *&to, i64 count) { to = take<T>(count); }
};

/** Memory of zeros for what `lay(pieces)` takes; it is called twice, to count and to hand out. */
template <class Lay> std::unique_ptr<Memory> laid_out(Lay lay) {
    Pieces count{nullptr};
    lay(count);
    auto memory = std::make_unique<Memory>(count.used);
    Pieces pieces{memory->as<char>()};
    lay(pieces);
    __builtin_memset(pieces.at, 0, count.used);
    return memory;
}

} // namespace ifonly::IFONLY_SET
