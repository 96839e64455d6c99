/* delay INTERFACE INTERFACE DELAY_MS JITTER_MS LOSS: a cable between two network cards that delays each packet by DELAY_MS,
   give or take JITTER_MS, and loses a part of them (0.1 is a tenth), in both directions. For kernels without netem.

   It prints a line when it is laid, and ends with its standard input. Packets keep their order. Those that the kernel has
   not yet cut to the size of a frame pass whole, which is why both ends speak the virtio header. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { LARGEST = 66000, MOST_QUEUED = 20000, AT_ONCE = 64 };

struct packet {
    struct packet *next;
    long long due;
    int length;
    unsigned char data[];
};

struct queue {
    struct packet *head, *tail;
    int length;
};

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static long long now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static int open_card(const char *name)
{
    int one = 1, buffer = 8 << 20;
    int card = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK, htons(ETH_P_ALL));
    struct sockaddr_ll address = {
        .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL), .sll_ifindex = if_nametoindex(name)};
    struct packet_mreq promiscuous = {.mr_ifindex = address.sll_ifindex, .mr_type = PACKET_MR_PROMISC};

    if (card < 0)
        die("socket");
    if (setsockopt(card, SOL_PACKET, PACKET_VNET_HDR, &one, sizeof one) < 0)
        die("PACKET_VNET_HDR");
    if (setsockopt(card, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof one) < 0)
        die("PACKET_IGNORE_OUTGOING");
    if (bind(card, (struct sockaddr *)&address, sizeof address) < 0)
        die(name);
    if (setsockopt(card, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &promiscuous, sizeof promiscuous) < 0)
        die("PACKET_ADD_MEMBERSHIP");
    /* More than the usual limit where we may; smaller buffers only lose packets earlier. */
    if (setsockopt(card, SOL_SOCKET, SO_RCVBUFFORCE, &buffer, sizeof buffer) < 0)
        setsockopt(card, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer);
    if (setsockopt(card, SOL_SOCKET, SO_SNDBUFFORCE, &buffer, sizeof buffer) < 0)
        setsockopt(card, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer);
    return card;
}

static void append(struct queue *queue, const unsigned char *data, int length, long long due)
{
    struct packet *packet = malloc(sizeof *packet + length);
    if (!packet)
        die("malloc");
    packet->next = NULL;
    packet->length = length;
    packet->due = queue->tail && due < queue->tail->due ? queue->tail->due : due;
    memcpy(packet->data, data, length);
    if (queue->tail)
        queue->tail->next = packet;
    else
        queue->head = packet;
    queue->tail = packet;
    queue->length++;
}

/* A card that is down, full or gone loses the packet, as a cable would. */
static void send_due(struct queue *queue, int card, long long time)
{
    struct packet *packet;
    while ((packet = queue->head) && packet->due <= time) {
        (void)!write(card, packet->data, packet->length);
        queue->head = packet->next;
        if (!queue->head)
            queue->tail = NULL;
        queue->length--;
        free(packet);
    }
}

int main(int count, char **words)
{
    if (count != 6) {
        fprintf(stderr, "usage: delay INTERFACE INTERFACE DELAY_MS JITTER_MS LOSS\n");
        return 2;
    }
    static unsigned char data[LARGEST];
    struct queue queues[2] = {0};
    int cards[2] = {open_card(words[1]), open_card(words[2])};
    double delay = atof(words[3]), jitter = atof(words[4]), loss = atof(words[5]);

    srand48(getpid());
    puts("laid");
    fflush(stdout);
    for (;;) {
        long long time = now(), next = -1;
        for (int from = 0; from < 2; from++) {
            send_due(&queues[from], cards[!from], time);
            if (queues[from].head && (next < 0 || queues[from].head->due < next))
                next = queues[from].head->due;
        }
        struct pollfd polled[3] = {{cards[0], POLLIN, 0}, {cards[1], POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}};
        long long wait = next < 0 ? 0 : next > now() ? next - now() : 0;
        struct timespec timeout = {wait / 1000000000, wait % 1000000000};
        ppoll(polled, 3, next < 0 ? NULL : &timeout, NULL);
        if (polled[2].revents)
            return 0;
        for (int from = 0; from < 2; from++) {
            for (int n = 0; polled[from].revents && n < AT_ONCE; n++) {
                int length = read(cards[from], data, sizeof data);
                if (length <= 0)
                    break;
                if (drand48() < loss || queues[from].length >= MOST_QUEUED)
                    continue;
                append(&queues[from], data, length, now() + (long long)((delay + jitter * (2 * drand48() - 1)) * 1e6));
            }
        }
    }
}
