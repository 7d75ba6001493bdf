// Writes transactions of rows into bbolt, without syncs, and prints the seconds of CPU that it took: bench/metadata_index.py.
//
// The file has, for each transaction, a big-endian u32 with the number of its rows. A row is a u32 with the number of buckets, one
// in the other, the name of each, the key and the value; each of these texts follows its length, a u32. The whole file is read
// first.
package main

import (
	"encoding/binary"
	"fmt"
	"log"
	"os"
	"syscall"

	"go.etcd.io/bbolt"
)

type row struct {
	buckets    [][]byte
	key, value []byte
}

// cpu returns the seconds of CPU that this process has used.
func cpu() float64 {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		log.Fatal(err)
	}
	return float64(used.Utime.Sec+used.Stime.Sec) + float64(used.Utime.Usec+used.Stime.Usec)/1e6
}

func main() {
	body, err := os.ReadFile(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	number := func() uint32 {
		n := binary.BigEndian.Uint32(body)
		body = body[4:]
		return n
	}
	text := func() []byte {
		size := number()
		part := body[:size]
		body = body[size:]
		return part
	}
	var transactions [][]row
	for len(body) > 0 {
		rows := make([]row, number())
		for i := range rows {
			rows[i].buckets = make([][]byte, number())
			for j := range rows[i].buckets {
				rows[i].buckets[j] = text()
			}
			rows[i].key = text()
			rows[i].value = text()
		}
		transactions = append(transactions, rows)
	}
	db, err := bbolt.Open(os.Args[2], 0o600, &bbolt.Options{NoSync: true, NoFreelistSync: true, NoGrowSync: true})
	if err != nil {
		log.Fatal(err)
	}
	start := cpu()
	for _, rows := range transactions {
		err := db.Update(func(tx *bbolt.Tx) error {
			for _, one := range rows {
				bucket, err := tx.CreateBucketIfNotExists(one.buckets[0])
				for _, name := range one.buckets[1:] {
					if err != nil {
						return err
					}
					bucket, err = bucket.CreateBucketIfNotExists(name)
				}
				if err != nil {
					return err
				}
				if err := bucket.Put(one.key, one.value); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(cpu() - start)
	if err := db.Close(); err != nil {
		log.Fatal(err)
	}
}
